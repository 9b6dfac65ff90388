// The words behind an answer: blue speaks for it, orange against it.
import { element } from "../dom.js";
import { signed } from "../text.js";
import { spans } from "./spans.js";

/** Show an explanation of the server, measured by integrated gradients. */
export function effects(explanation) {
  const most = Math.max(...explanation.words.map((word) => Math.abs(word.gradient)), 1e-9);
  const texts = explanation.texts.map((text, side) => spans(text, explanation.words.filter((word) => word.side === side), (word, part) => {
    const share = word.gradient / most;
    const style = Math.abs(share) < 0.05 ? "effect" : share > 0 ? "effect up" : "effect down";
    const title = `${word.text}: ${signed(word.gradient)} by gradients, ${signed(word.left_out)} if left out`;
    return element("span", { class: style, title, vars: { share: Math.abs(share) } }, part);
  }));
  return element("section", { class: "effects" },
    element("h3", {}, "The words that mattered for ", element("bdi", {}, explanation.answer)),
    texts,
    element("p", { class: "colours" }, element("span", { class: "effect up", vars: { share: 0.8 } }, "for"), " ", element("span", { class: "effect down", vars: { share: 0.8 } }, "against")),
    numbers(explanation));
}

function numbers({ words }) {
  const ranked = [...words].sort((a, b) => Math.abs(b.gradient) - Math.abs(a.gradient)).slice(0, 12);
  return element("details", {},
    element("summary", {}, "Numbers"),
    element("div", { class: "scroll" }, element("table", {},
      element("thead", {}, element("tr", {}, ["Word", "Gradients", "Left out"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ranked.map((word) => element("tr", {},
        element("th", { scope: "row" }, element("bdi", {}, word.text)), element("td", {}, signed(word.gradient)), element("td", {}, signed(word.left_out))))))));
}
