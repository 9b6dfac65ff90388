// Search: the lines nearest in meaning to a query.
import { element } from "../dom.js";
import { notes } from "../examples.js";
import { choice, longText, shortText } from "../fields.js";
import { needed, NothingToAsk } from "../panel.js";
import { count, lines } from "../text.js";

export const search = {
  name: "search",
  title: "Search",
  verb: "search",
  lead: "Paste some lines; a query finds the nearest ones by meaning, not by words.",
  fields: () => [
    shortText("query", "Query"),
    longText("lines", "Lines", { rows: 8, placeholder: "One text a line" }),
    choice("top", "Show", [["3", "3 lines"], ["5", "5 lines"], ["10", "10 lines"]], "5"),
  ],
  examples: () => notes.queries.map((query) => ({ label: query, values: { query, lines: notes.lines.join("\n") } })),

  async answer({ values, ask }) {
    const query = needed(values.query, "Type what to look for."), searched = lines(values.lines);
    if (!searched.length) throw new NothingToAsk("Paste some lines to search in.");
    const [{ hits }] = await ask("search", { texts: [query], lines: searched, top: Math.min(Number(values.top) || 5, searched.length) });
    return { node: list(hits, searched.length), said: `${count(hits.length, "line")}; nearest: ${hits[0]?.text}` };
  },
};

function list(hits, total) {
  return element("div", {},
    element("p", { class: "summary" }, `The nearest of ${count(total, "line")}`),
    element("ol", { class: "hits" }, hits.map((hit) => element("li", {},
      element("span", { class: "hit", dir: "auto" }, hit.text),
      element("span", { class: "track", "aria-hidden": "true" }, element("i", { vars: { bar: Math.max(0, Math.min(1, hit.cosine)) } })),
      element("span", { class: "share" }, `line ${hit.line} · ${hit.cosine.toFixed(2)}`)))));
}
