// Probabilities as bars.
import { element } from "../dom.js";
import { percent } from "../text.js";

/**
 * Show rows { name, share, chosen } as bars.
 * `choose` is called with a row when its name is clicked; without it, names are plain text. With `relative`, the
 * longest bar is that of the largest share: for words, of which none may be likely.
 */
export function bars(rows, { choose = null, label = "Probabilities", relative = false } = {}) {
  const full = relative ? Math.max(...rows.map((row) => row.share), 1e-9) : 1;
  return element("ol", { class: "bars", "aria-label": label }, rows.map((row) => {
    const name = element("bdi", {}, row.name || "∅");
    return element("li", { class: row.chosen ? "chosen" : null },
      choose ? element("button", { type: "button", class: "bar-name", "aria-pressed": String(Boolean(row.chosen)), onclick: () => choose(row) }, name) : element("span", { class: "bar-name" }, name),
      element("span", { class: "track", "aria-hidden": "true" }, element("i", { vars: { bar: row.share / full } })),
      element("span", { class: "share" }, percent(row.share)));
  }));
}
