// A text with some of its spans marked.
import { element } from "../dom.js";
import { pieces } from "../text.js";

/** Show a text; `mark(span, text)` makes the element of a span. White space is kept. */
export function spans(text, marked, mark) {
  return element("p", { class: "reading", dir: "auto" },
    pieces(text, marked).map(({ text: part, span }) => (span ? mark(span, part) : part)));
}

// Hues that most colour-blind readers can tell apart; the name of a label stands beside its colour anyway.
const HUES = { PER: 265, PERSON: 265, LOC: 160, GPE: 160, ORG: 25, MISC: 330 };

/** Return the hue of each label: the usual ones have theirs, the others follow each other by the golden angle. */
export function hues(labels) {
  const others = [...new Set(labels)].filter((label) => !(label in HUES)).sort();
  return Object.fromEntries([...new Set(labels)].map((label) => [label, HUES[label] ?? Math.round(205 + others.indexOf(label) * 137.508) % 360]));
}
