// The model view: every layer and head as a thumbnail.
let thumbs = null;

function thumbImage(layer, head) {
  const { heads, thumb: [height, width] } = part();
  const image = new ImageData(width, height), start = (layer * heads + head) * width * height;
  const own = thumbs.subarray(start, start + width * height), most = Math.max(1, ...own);
  for (let i = 0; i < width * height; i++) {
    image.data.set(colours.levels, 4 * i);
    image.data[4 * i + 3] = (255 * own[i]) / most;
  }
  return asCanvas(image);
}

function drawModel() {
  const { layers, heads } = part();
  const grid = one("#model .grid"), cells = [];
  grid.style.gridTemplateColumns = `auto repeat(${heads}, max-content) 1fr`;
  for (let layer = 0; layer < layers; layer++) {
    cells.push(element("span", String(layer)));
    for (let head = 0; head < heads; head++) {
      const button = element("button", "", { type: "button", "aria-label": `layer ${layer}, head ${head}`, title: `layer ${layer}, head ${head}` });
      button.append(thumbImage(layer, head));
      button.dataset.layer = layer;
      button.dataset.head = head;
      cells.push(button);
    }
    cells.push(element("span"));
  }
  grid.replaceChildren(...cells);
  markModel();
}

function markModel() {
  for (const button of document.querySelectorAll("#model button")) {
    const chosen = Number(button.dataset.layer) === state.layer && state.heads.has(Number(button.dataset.head));
    button.setAttribute("aria-pressed", chosen);
  }
}

one("#model .grid").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button === null) return;
  change({ layer: Number(button.dataset.layer), heads: new Set([Number(button.dataset.head)]) });
  one("#matrix").scrollIntoView({ behavior: "instant", block: "start" });
  matrixView.focus({ preventScroll: true });
});
