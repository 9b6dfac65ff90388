// Translate: word by word with its alignment, and the next best translations.
import { element } from "../dom.js";
import { translations } from "../examples.js";
import { choice, longText } from "../fields.js";
import { needed } from "../panel.js";
import { aligned } from "../views/aligned.js";

export const translate = {
  name: "translate",
  title: "Translate",
  verb: "translate",
  lead: "Point at a word, or move to it with Tab and the arrow keys, to see which word it comes from.",
  fields: (model) => [
    longText("text", "Text", { placeholder: "Type a sentence" }),
    ...taskField(model),
    choice("nbest", "Translations", [["1", "the best"], ["3", "the 3 best"], ["5", "the 5 best"]], "3"),
  ],
  examples: (model) => translations(model.id).map((text) => ({ label: text, values: { text } })),

  async answer({ values, ask }) {
    const text = needed(values.text, "Type a text to translate.");
    const nbest = Number(values.nbest) || 3;
    const body = { texts: [text], nbest, beam: Math.max(4, nbest), alignments: true, ...(values.task && { task: values.task }) };
    const [best] = await ask("translate", body);
    return { node: several(text, [best, ...(best.others ?? [])]), said: `Translation: ${best.translation}` };
  },
};

/** Several tasks to choose from, in a T5. */
function taskField(model) {
  const names = Object.keys(model.tasks ?? {});
  return names.length > 1 ? [choice("task", "Task", names.map((name) => [name, name]), names[0])] : [];
}

function several(text, found) {
  const whole = element("div", { class: "translations" });
  const choose = (at) => {
    const one = found[at];
    const others = element("ol", { class: "nbest", "aria-label": "Translations, best first" }, found.map((other, number) => element("li", {},
      element("button", { type: "button", "aria-pressed": String(number === at), onclick: () => { choose(number); whole.querySelectorAll(".nbest button")[number].focus(); } },
        element("span", { dir: "auto" }, other.translation || "∅"),
        other.score === undefined ? null : element("span", { class: "score", title: "log-probability, divided by a power of the length" }, other.score.toFixed(2).replace("-", "−"))))));
    whole.replaceChildren(
      aligned(text, one.translation, one.alignment ?? []),
      ...(found.length > 1 ? [element("h3", {}, "Best translations"), others] : []));
  };
  choose(0);
  return whole;
}
