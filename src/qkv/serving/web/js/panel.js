// One panel: fields, examples, a button, and what the model answers.
import * as api from "./api.js";
import { announce, element } from "./dom.js";
import { duration } from "./text.js";

/**
 * Open a panel. A panel of panels/ is an object:
 *   name, title, lead, verb;
 *   fields(model): its fields (fields.js);
 *   examples(model): [{ label, values }], which are shown as buttons that fill in the fields and ask;
 *   answer({ model, values, fields, ask, stream, show }): asks the server with ask(verb, body), which gives answers,
 *     or stream(verb, body, hear); returns { node, said }: what to show, and one sentence for a screen reader. It may
 *     call show(node) before, with what is there so far.
 *
 * `changed` is called after each change of a field. Returns { node, run, values, filled }, where filled() tells whether
 * there is something in the first field.
 */
export function openPanel(panel, model, given, changed) {
  const fields = panel.fields(model), examples = panel.examples(model);
  const button = element("button", { type: "submit", class: "run" }, panel.action ?? panel.title);
  const stop = element("button", { type: "button", class: "quiet", hidden: true }, "Stop");
  const took = element("span", { class: "took" });
  const result = element("section", { class: "result", "aria-label": "Answer" },
    element("p", { class: "waiting" }, "Type something, or click an example."));
  const form = element("form", { class: "ask", novalidate: true },
    fields.filter((field) => field.node.classList.contains("wide")).map((field) => field.node),
    element("div", { class: "row" }, fields.filter((field) => !field.node.classList.contains("wide")).map((field) => field.node)),
    element("div", { class: "row actions" }, button, stop, took),
    element("div", { class: "examples", role: "group", "aria-label": "Examples" },
      element("span", { class: "examples-title" }, "Try"),
      examples.map((example) => element("button", { type: "button", class: "example", dir: "auto", onclick: () => use(example) }, example.label))));
  const node = element("div", { class: `panel ${panel.name}`, id: "tabpanel", role: "tabpanel", "aria-labelledby": `tab-${panel.name}` },
    element("p", { class: "lead" }, panel.lead),
    element("div", { class: "columns" }, form, result));

  const values = () => Object.fromEntries(fields.map((field) => [field.name, field.value]));
  const byName = Object.fromEntries(fields.map((field) => [field.name, field]));
  const server = (signal, notes) => ({
    async ask(verb, body) {
      const { answers, warnings } = await api.ask(verb, { model: model.id, ...body }, signal);
      for (const warning of warnings ?? []) notes.add(warning);
      return answers;
    },
    stream: (verb, body, hear) => api.stream(verb, { model: model.id, ...body }, signal, hear),
  });
  let current = null; // of the question that is being answered

  const use = (example) => {
    for (const field of fields) if (field.name in example.values) field.value = example.values[field.name];
    changed();
    run();
  };

  async function run() {
    current?.abort();
    const asked = current = new AbortController();
    const show = (part) => { if (asked === current) result.replaceChildren(part); };
    result.setAttribute("aria-busy", "true");
    stop.hidden = false;
    took.textContent = "";
    const start = performance.now(), notes = new Set();
    try {
      const { node: found, said } = await panel.answer({ model, values: values(), fields: byName, show, ...server(asked.signal, notes) });
      if (asked !== current) return;
      result.replaceChildren(found, ...[...notes].map((note) => element("p", { class: "note" }, note)));
      took.textContent = duration(performance.now() - start);
      announce(said);
      if (result.getBoundingClientRect().top > innerHeight - 120) result.scrollIntoView({ block: "start" }); // one column
    } catch (error) {
      if (asked !== current || error.name === "AbortError") return;
      show(element("p", { class: "error", role: "alert" }, error.message));
      if (error.name !== "ServerError" && error.name !== "NothingToAsk") throw error; // a mistake of this page
    } finally {
      if (asked === current) finish();
    }
  }

  function finish() {
    current = null;
    result.removeAttribute("aria-busy");
    stop.hidden = true;
  }

  stop.addEventListener("click", () => {
    current?.abort();
    finish();
    announce("Stopped");
    button.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  form.addEventListener("input", changed);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });
  for (const field of fields) if (given[field.name] !== undefined) field.value = given[field.name];
  return { node, run, values, filled: () => fields[0].value.trim() !== "" };
}

/** There is nothing to ask yet; the message says what is missing. */
export class NothingToAsk extends Error {
  constructor(message) {
    super(message);
    this.name = "NothingToAsk";
  }
}

/** Return a text that is not empty, or say what to type. */
export function needed(text, message) {
  if (!text.trim()) throw new NothingToAsk(message);
  return text;
}
