// Live figures: throughput and latency of the server, read every two seconds while the page is seen.
import { stats } from "./api.js";
import { element } from "./dom.js";
import { duration } from "./text.js";

const EVERY = 2000; // milliseconds
const KEPT = 40; // points of the curve

/** Fill the footer, and keep it true. */
export function watchStats(footer) {
  const seen = [];
  const tick = async () => {
    if (document.hidden) return;
    try {
      const now = await stats();
      seen.push(now.requests_per_second);
      if (seen.length > KEPT) seen.shift();
      footer.replaceChildren(...figures(now), curve(seen));
    } catch (error) {
      footer.replaceChildren(element("span", {}, error.message));
    }
  };
  tick();
  setInterval(tick, EVERY);
}

function figures(now) {
  const { p50, p99 } = now.latency_ms, tokens = now.generated_tokens_per_second;
  const rows = [
    [now.requests_per_second.toFixed(1), "requests a second"],
    ...(tokens ? [[String(Math.round(tokens)), "tokens a second"]] : []),
    [p50 === null ? "–" : duration(p50), "median latency"],
    [p99 === null ? "–" : duration(p99), "99th percentile"],
  ];
  return rows.map(([value, name]) => element("span", {}, element("b", {}, value), ` ${name}`));
}

const SVG = "http://www.w3.org/2000/svg";

function curve(values) {
  const most = Math.max(...values, 1e-9), picture = document.createElementNS(SVG, "svg"), line = document.createElementNS(SVG, "polyline");
  picture.setAttribute("viewBox", "0 0 120 24");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `Requests a second over the last ${(values.length * EVERY) / 1000} seconds`);
  line.setAttribute("points", values.map((value, at) => `${((at + KEPT - values.length) * 120) / (KEPT - 1)},${23 - (22 * value) / most}`).join(" "));
  picture.append(line);
  return picture;
}
