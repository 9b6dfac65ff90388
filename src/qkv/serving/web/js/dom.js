// Building the page. What comes from a user or a model is only ever text: no file of this folder writes markup.

export const one = (selector, within = document) => within.querySelector(selector);

/**
 * Make an element with attributes and children; strings become text.
 * A function is an event handler ({ onclick }), false and null leave an attribute out, and `vars` are CSS variables.
 */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(key.slice(2), value);
    else if (key === "vars") for (const [name, number] of Object.entries(value)) made.style.setProperty(`--${name}`, number);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** Say something to a screen reader, politely. */
export function announce(text) {
  one("#said").textContent = text;
}

let made = 0;

/** Return an id that no other element has. */
export const freshId = (stem) => `${stem}-${++made}`;

/**
 * Let the arrow keys move between elements, of which one is a stop of the Tab key (a "roving tabindex").
 * `moved` is called with the element that gets the focus; `first` is the stop at first.
 */
export function roving(group, items, moved = () => {}, first = 0) {
  const focus = (index) => {
    const next = items[(index + items.length) % items.length];
    for (const item of items) item.tabIndex = item === next ? 0 : -1;
    next.focus();
    moved(next);
  };
  items.forEach((item, index) => { item.tabIndex = index === first ? 0 : -1; });
  group.onkeydown = (event) => {
    const at = items.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    focus(to);
  };
}
