// Similarity: the cosine of each pair of lines.
import { element } from "../dom.js";
import { sentences } from "../examples.js";
import { longText } from "../fields.js";
import { NothingToAsk } from "../panel.js";
import { lines } from "../text.js";
import { likeness, nearest } from "../views/likeness.js";

const MOST = 24; // lines in a matrix

export const similar = {
  name: "similar",
  title: "Similarity",
  action: "Compare",
  verb: "similar",
  lead: "One sentence a line; each is compared with each other by the cosine of their vectors.",
  fields: () => [longText("lines", "Sentences", { rows: 7, placeholder: "One sentence a line" })],
  examples: () => sentences.map((some) => ({ label: some[0], values: { lines: some.join("\n") } })),

  async answer({ values, ask }) {
    const texts = lines(values.lines);
    if (texts.length < 2) throw new NothingToAsk("Type at least two lines.");
    if (texts.length > MOST) throw new NothingToAsk(`Type at most ${MOST} lines: there are ${texts.length}.`);
    const cosines = (await ask("similar", { texts })).map((row) => row.cosines);
    const [a, b, cosine] = nearest(cosines), said = `Most similar: ${a + 1} and ${b + 1}, with a cosine of ${cosine.toFixed(2)}.`;
    return { node: element("div", {}, element("p", { class: "summary" }, said), likeness(texts, cosines)), said };
  },
};
