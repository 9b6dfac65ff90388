// Drawing: colours of the page, and a canvas as large as what is visible over a space as large as the whole.
const one = (selector) => document.querySelector(selector);

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const named = ["card", "ink", "muted", "rule", "accent", "deep", "less", "lightness"];
  colours = Object.fromEntries(named.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  [colours.levels, colours.below] = [colours.deep, colours.less].map((levels) => levels.split(" ").map(Number));
  colours.dark = matchMedia("(prefers-color-scheme: dark)").matches;
}

// Neighbouring heads differ most if hues follow each other by the golden angle.
const headColour = (head) => `hsl(${Math.round(head * 137.508 + 215) % 360} 70% ${colours.lightness})`;

function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const brush = canvas.getContext("2d");
  brush.setTransform(ratio, 0, 0, ratio, 0, 0);
  return brush;
}

// Call `paint(brush, seen)` for the visible part {x, y, width, height} whenever it changes.
function scroller(view, paint) {
  const canvas = view.querySelector("canvas"), whole = view.querySelector(".whole");
  let asked = 0;
  const draw = () => {
    asked = 0;
    const width = view.clientWidth, height = view.clientHeight;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const brush = sized(canvas, width, height);
    brush.font = "13px system-ui, sans-serif";
    brush.textBaseline = "middle";
    paint(brush, { x: view.scrollLeft, y: view.scrollTop, width, height });
  };
  const later = () => { asked ||= requestAnimationFrame(draw); };
  view.addEventListener("scroll", later);
  return {
    later,
    resize(width, height) {
      whole.style.width = `${width}px`;
      whole.style.height = `${height}px`;
      later();
    },
    place(event) {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left + view.scrollLeft, event.clientY - box.top + view.scrollTop];
    },
  };
}

// Scroll so that a place is seen.
function reveal(view, y) {
  if (y < view.scrollTop + 12 || y > view.scrollTop + view.clientHeight - 12) view.scrollTop = y - view.clientHeight / 2;
}

// Write a token into a width; `align` is left or right of x. A token never turns its neighbours around.
function write(brush, text, x, y, width, align) {
  brush.direction = "ltr";
  brush.textAlign = align;
  let shown = text;
  if (brush.measureText(shown).width > width) {
    let kept = [...shown];
    while (kept.length > 1 && brush.measureText(`${kept.join("")}…`).width > width) kept = kept.slice(0, -1);
    shown = `${kept.join("")}…`;
  }
  brush.fillText(shown, x, y);
}


function tell(section, text) { one(`#${section} .said`).textContent = text; }
