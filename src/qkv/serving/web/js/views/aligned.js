// A text and its translation, word by word: pointing at a word, or moving to it, lights up what belongs to it.
import { announce, element, roving } from "../dom.js";
import { words } from "../text.js";

/** Show both texts; `alignment` is a list of pairs of word numbers. */
export function aligned(source, target, alignment) {
  const sides = [wordsOf(source), wordsOf(target)];
  const partners = [new Map(), new Map()];
  for (const [from, to] of alignment) {
    partners[0].set(from, [...(partners[0].get(from) ?? []), to]);
    partners[1].set(to, [...(partners[1].get(to) ?? []), from]);
  }
  const told = element("p", { class: "told", "aria-hidden": "true" });
  const clear = () => {
    for (const word of sides.flatMap((side) => side.nodes)) word.classList.remove("lit", "here");
    told.textContent = "";
  };
  const light = (side, at) => {
    clear();
    const others = partners[side].get(at) ?? [];
    sides[side].nodes[at].classList.add("here");
    for (const other of others) sides[1 - side].nodes[other]?.classList.add("lit");
    told.textContent = sentence(sides, side, at, others);
  };
  sides.forEach(({ nodes }, side) => nodes.forEach((word, at) => {
    word.addEventListener("pointerenter", () => light(side, at));
    word.addEventListener("focus", () => { light(side, at); announce(told.textContent); });
    word.addEventListener("blur", clear);
  }));
  const rows = sides.map(({ parts, nodes }, side) => {
    const row = element("p", { class: `aligned ${side ? "target" : "source"}`, dir: "auto", role: "group", "aria-label": side ? "Translation, word by word" : "Text, word by word" }, parts);
    row.addEventListener("pointerleave", () => { if (!row.contains(document.activeElement)) clear(); });
    roving(row, nodes);
    return row;
  });
  return element("div", { class: "alignment" }, rows[1], rows[0], told);
}

function wordsOf(text) {
  const nodes = [];
  const parts = words(text).map((part) => {
    if (part.gap) return part.gap;
    const node = element("span", { class: "word", role: "img", "aria-label": part.word }, part.word);
    nodes.push(node);
    return node;
  });
  return { parts, nodes };
}

function sentence(sides, side, at, others) {
  const own = sides[side].nodes[at].textContent;
  const theirs = others.map((other) => sides[1 - side].nodes[other]?.textContent).join(" ");
  if (!theirs) return side ? `“${own}” has no word of its own in the text.` : `“${own}” has no word of its own in the translation.`;
  return side ? `“${own}” comes from “${theirs}”` : `“${own}” becomes “${theirs}”`;
}
