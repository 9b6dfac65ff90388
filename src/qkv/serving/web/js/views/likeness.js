// How similar each text is to each other: a table shaded by the cosine.
import { element } from "../dom.js";

/** Show cosines, a row for each text; `texts` name them. */
export function likeness(texts, cosines) {
  const name = (at) => String(at + 1);
  const head = element("tr", {}, element("td"), texts.map((text, at) => element("th", { scope: "col", title: text }, name(at))));
  const body = cosines.map((row, at) => element("tr", {},
    element("th", { scope: "row", title: texts[at] }, name(at)),
    row.map((cosine, other) => {
      const share = Math.max(0, Math.min(1, cosine));
      return element("td", { title: `${name(at)} and ${name(other)}: ${cosine.toFixed(3)}`, vars: { share } }, cosine.toFixed(2));
    })));
  return element("div", { class: "likeness" },
    element("div", { class: "scroll" }, element("table", { class: "matrix" },
      element("caption", { class: "unseen" }, "Cosine of each pair of texts"),
      element("thead", {}, head), element("tbody", {}, body))),
    element("ol", { class: "numbered" }, texts.map((text) => element("li", { dir: "auto" }, text))));
}

/** Return the two most similar texts: their numbers and their cosine. */
export function nearest(cosines) {
  let best = [0, 0, -Infinity];
  cosines.forEach((row, at) => row.forEach((cosine, other) => { if (other > at && cosine > best[2]) best = [at, other, cosine]; }));
  return best;
}
