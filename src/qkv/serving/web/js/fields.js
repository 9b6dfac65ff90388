// Fields of a panel: each has a name, a labelled node, and a value that is a string.
import { element, freshId } from "./dom.js";

function labelled(name, label, control, { hint = null, style = "" } = {}) {
  const id = control.id || (control.id = freshId(name));
  const told = hint ? element("p", { class: "hint", id: `${id}-hint` }, hint) : null;
  if (told) control.setAttribute("aria-describedby", told.id);
  return {
    name,
    control,
    node: element("div", { class: `field ${style}` }, element("label", { for: id }, label), control, told),
    get value() { return control.value; },
    set value(value) { control.value = value; control.dispatchEvent(new Event("input")); },
  };
}

/** A text of several lines, which grows with what is typed. */
export function longText(name, label, { rows = 3, hint = null, placeholder = "" } = {}) {
  const area = element("textarea", { rows, placeholder, dir: "auto", spellcheck: "false" });
  const grow = () => {
    area.style.height = "auto";
    if (area.scrollHeight > area.clientHeight) area.style.height = `${Math.min(area.scrollHeight + 2, 420)}px`;
  };
  area.addEventListener("input", grow);
  return labelled(name, label, area, { hint, style: "wide" });
}

/** A text of one line. */
export const shortText = (name, label, { hint = null, placeholder = "" } = {}) =>
  labelled(name, label, element("input", { type: "text", dir: "auto", placeholder, autocomplete: "off", spellcheck: "false" }), { hint, style: "wide" });

/** One of a few values: [value, shown] each. */
export function choice(name, label, options, usual) {
  const select = element("select", {}, options.map(([value, shown]) => element("option", { value }, shown)));
  select.value = usual;
  return labelled(name, label, select, { style: "small" });
}

/** A number. */
export const number = (name, label, { min, max, step = 1, usual }) =>
  labelled(name, label, element("input", { type: "number", min, max, step, value: usual }), { style: "small" });
