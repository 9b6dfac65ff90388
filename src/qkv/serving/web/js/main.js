// Start: ask the server for its models, and show the panel that the address names.
import { models } from "./api.js";
import { announce, element, one } from "./dom.js";
import { openPanel } from "./panel.js";
import { offered } from "./panels.js";
import { readLink, writeLink } from "./state.js";
import { watchStats } from "./stats.js";
import { showTabs } from "./tabs.js";
import { compact } from "./text.js";

let known = []; // the models
let shown = null; // { model, panel, open }
const kept = new Map(); // what was typed into each panel

const modelOf = (name) => known.find((model) => model.id === name) ?? known.find((model) => model.state === "loaded");

/** Show a panel of a model; values are what its fields hold. */
function show({ model: name, panel: title, values = {} }, { run = false } = {}) {
  const model = modelOf(name), able = offered(model);
  const panel = able.find((one) => one.name === title) ?? able[0];
  if (shown) kept.set(shown.panel.name, shown.open.values());
  one("#model").value = model.id;
  one("#facts").textContent = factsOf(model);
  document.title = panel ? `${panel.title} · ${model.id} · qkv` : `${model.id} · qkv`;
  showTabs(one("#tabs"), able, panel, (next) => show({ model: model.id, panel: next.name, values: kept.get(next.name) }));
  if (!panel) {
    shown = null;
    one("#panel").replaceChildren(element("p", { class: "waiting" }, stateOf(model)));
    return;
  }
  const open = openPanel(panel, model, values, remember);
  one("#share").hidden = false;
  document.body.dataset.ready = "yes";
  shown = { model, panel, open };
  one("#panel").replaceChildren(open.node);
  remember();
  if (run && open.filled()) open.run();
}

/** Keep the address true. */
function remember() {
  if (!shown) return;
  const { model, panel, open } = shown;
  writeLink({ model: model.id, panel: panel.name, values: open.values() });
}

function factsOf(model) {
  const size = model.parameters ? `${compact(model.parameters)} parameters` : null;
  return [model.family, size, model.engine && model.engine !== "torch" ? `engine: ${model.engine}` : null].filter(Boolean).join(" · ");
}

/** Show what the address names, and answer it. */
const fromLink = () => show(readLink(), { run: true });

async function copyLink() {
  const { model, panel, open } = shown ?? {};
  const fits = shown && writeLink({ model: model.id, panel: panel.name, values: open.values() });
  try {
    await navigator.clipboard.writeText(location.href);
    tell(fits ? "Link copied" : "Link copied, without the long text");
  } catch {
    tell("Copy it from the address bar");
  }
}

function tell(text) {
  const button = one("#share");
  button.textContent = text;
  announce(text);
  setTimeout(() => { button.textContent = "Copy link"; }, 2500);
}

/** Ask for the models, and again as long as some of them are being loaded. */
async function start() {
  try {
    known = await models();
  } catch (error) {
    const again = element("button", { type: "button", class: "quiet", onclick: start }, "Try again");
    return one("#panel").replaceChildren(element("p", { role: "alert", class: "error" }, error.message), again);
  }
  const picker = one("#model");
  picker.replaceChildren(...known.map((model) => element("option", { value: model.id }, nameOf(model))));
  picker.disabled = known.length < 2;
  if (known.some((model) => model.state === "loading")) setTimeout(start, 1000);
  if (shown) picker.value = shown.model.id;
  else if (known.some((model) => model.state === "loaded")) fromLink();
  else one("#panel").replaceChildren(element("p", { class: "waiting" }, known.length ? known.map(stateOf).join(" ") : "The server has no model."));
}

const nameOf = (model) => (model.state === "failed" ? `${model.id} (failed)` : model.state === "loading" ? `${model.id} (loading)` : model.id);

/** Say why a model does not answer. */
function stateOf(model) {
  if (model.state === "failed") return `${model.id} could not be loaded: ${model.error}.`;
  return model.state === "loading" ? `${model.id} is being loaded …` : `${model.id} has no verb that this page can show.`;
}

one("#model").addEventListener("change", (event) => show({ model: event.target.value, panel: shown?.panel.name, values: shown?.open.values() }));
one("#share").addEventListener("click", copyLink);
addEventListener("hashchange", fromLink);
start();
watchStats(one("footer.live"));
