// Classify: all labels as bars, and the words that mattered for the first.
import { element } from "../dom.js";
import { reviews } from "../examples.js";
import { longText } from "../fields.js";
import { needed } from "../panel.js";
import { count, percent } from "../text.js";
import { bars } from "../views/bars.js";
import { effects } from "../views/effects.js";

export const classify = {
  name: "classify",
  title: "Classify",
  verb: "classify",
  lead: "The probability of each label, and how much each word adds to the most likely one.",
  fields: () => [longText("text", "Text", { placeholder: "Type a text", rows: 4 })],
  examples: (model) => reviews(model.labels).map((text) => ({ label: text, values: { text } })),

  async answer({ model, values, ask, show }) {
    const texts = [needed(values.text, "Type a text to classify.")];
    const [found] = await ask("classify", { texts, ...everyOf(model) });
    return explained(found, { texts }, ask, show);
  },
};

/** Ask for every label, unless the model predicts a number. */
export const everyOf = (model) => (model.number ? {} : { every: true });

/** Show labels at once, and the words behind the first as soon as they are known. */
export async function explained(found, given, ask, show) {
  const labels = labelled(found);
  show(element("div", {}, labels.node, element("p", { class: "waiting" }, "Measuring each word …")));
  const [{ explanations }] = await ask("explain", { ...given, verb: "classify" });
  const shown = explanations.filter((one) => one.words.length).slice(0, 3).map(effects);
  return { node: element("div", {}, labels.node, shown), said: labels.said };
}

/** Show labels as bars, or a number as it is. */
export function labelled(found) {
  if (found.number !== undefined) {
    return { node: element("p", { class: "big" }, found.number.toFixed(2)), said: `The number is ${found.number.toFixed(2)}` };
  }
  const labels = found.labels ?? [found];
  if (!labels.length) return { node: element("p", { class: "waiting" }, "No label is likely enough."), said: "No label is likely enough." };
  const rows = labels.slice(0, 12).map(({ label, score }, at) => ({ name: label, share: score, chosen: at === 0 }));
  const rest = labels.length - rows.length;
  const more = rest > 0 ? element("p", { class: "hint" }, `${count(rest, "more label")}, all less likely`) : null;
  return { node: element("div", {}, bars(rows), more), said: `${labels[0].label}, ${percent(labels[0].score)}` };
}
