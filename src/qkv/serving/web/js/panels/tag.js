// Tag: entities, or the tag of each word, coloured in the text.
import { element } from "../dom.js";
import { named } from "../examples.js";
import { longText } from "../fields.js";
import { needed } from "../panel.js";
import { count, percent } from "../text.js";
import { hues, spans } from "../views/spans.js";

export const tag = {
  name: "tag",
  title: "Tag",
  verb: "tag",
  lead: "The names in a text, or the kind of each word, in the colour of its label.",
  fields: () => [longText("text", "Text", { placeholder: "Type a text", rows: 4 })],
  examples: () => named.map((text) => ({ label: text, values: { text } })),

  async answer({ values, ask }) {
    const text = needed(values.text, "Type a text to tag.");
    const [{ entities, words }] = await ask("tag", { texts: [text] });
    const found = entities ?? words;
    const said = found.length ? found.map((one) => `${one.text}: ${one.label}`).join(", ") : "Nothing found";
    return { node: tagged(text, found, entities ? "entity" : "word"), said };
  },
};

function tagged(text, found, kind) {
  const hue = hues(found.map((one) => one.label));
  const marked = spans(text, found, (one, part) => element("mark", { class: "tagged", vars: { hue: hue[one.label] }, title: `${one.label}, ${percent(one.score)}` },
    part, element("small", {}, one.label)));
  const counts = Object.entries(Object.groupBy(found, (one) => one.label)).map(([label, some]) =>
    element("li", {}, element("span", { class: "tagged", vars: { hue: hue[label] } }, label), ` ${some.length}`));
  const title = found.length ? count(found.length, kind).replace("entitys", "entities") : "Nothing found";
  return element("div", {}, marked, element("h3", {}, title), element("ul", { class: "legend" }, counts));
}
