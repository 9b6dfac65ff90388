// Fill: the most likely words for each mask, as bars; a click puts a word into the text.
import { element } from "../dom.js";
import { gaps } from "../examples.js";
import { longText } from "../fields.js";
import { needed, NothingToAsk } from "../panel.js";
import { bars } from "../views/bars.js";

const MASK = /\[MASK\]|<mask>/g;

export const fill = {
  name: "fill",
  title: "Fill in",
  action: "Fill in",
  verb: "fill",
  lead: "Write [MASK] where a word is missing. Click a word to put it in.",
  fields: () => [longText("text", "Text with gaps", { placeholder: "The capital of France is [MASK]." })],
  examples: () => gaps.map((text) => ({ label: text, values: { text } })),

  async answer({ values, ask }) {
    const text = needed(values.text, "Type a text with [MASK] in it.");
    if (text.search(MASK) < 0) throw new NothingToAsk("Write [MASK] where a word is missing.");
    const [{ masks }] = await ask("fill", { texts: [text], top: 8 });
    return { node: filled(text, masks), said: masks.map((words, at) => `Gap ${at + 1}: ${words[0].word}`).join(", ") };
  },
};

function filled(text, masks) {
  const between = text.split(MASK), chosen = masks.map(() => 0), whole = element("div");
  const draw = () => {
    const said = between.flatMap((part, at) => [part, at < masks.length && at < between.length - 1 ? element("mark", { class: "found" }, masks[at][chosen[at]].word) : null]);
    whole.replaceChildren(element("p", { class: "reading big", dir: "auto" }, said), ...masks.flatMap((words, mask) => {
      const rows = words.map((word, rank) => ({ name: word.word, share: word.score, chosen: rank === chosen[mask], mask, rank }));
      return [
        masks.length > 1 ? element("h3", {}, `Gap ${mask + 1}`) : null,
        bars(rows, { choose, relative: true, label: `Words for gap ${mask + 1}` }),
      ].filter(Boolean);
    }));
  };
  const choose = ({ mask, rank }) => {
    chosen[mask] = rank;
    draw();
    whole.querySelectorAll(".bars")[mask].querySelectorAll("button")[rank].focus();
  };
  draw();
  return whole;
}
