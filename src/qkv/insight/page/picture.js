// The picture of a vision model, with the attention of one patch over it.
const pictureCanvas = one("#picture canvas");
const EDGE = 448; // pixels of the picture on the page
let pixels = null, rolled = null;

async function setUpPicture() {
  if (data.picture === null) return;
  one("#picture").hidden = false;
  const { channels, height, width } = data.picture;
  const [planes, rollout] = await Promise.all([bytes("pixels"), bytes("rollout")]);
  const image = new ImageData(width, height), size = width * height;
  for (let i = 0; i < size; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = planes[(channels === 1 ? 0 : c) * size + i];
    image.data[4 * i + 3] = 255;
  }
  [pixels, rolled] = [asCanvas(image), rollout];
  one("#overlay").addEventListener("change", drawPicture);
  drawPicture();
}

function drawPicture() {
  if (pixels === null) return;
  const { grid, leading } = data.picture, row = Math.max(state.row, 0), kind = one("#overlay").value;
  const brush = sized(pictureCanvas, EDGE, EDGE);
  brush.imageSmoothingEnabled = false;
  brush.drawImage(pixels, 0, 0, EDGE, EDGE);
  const count = grid * grid, size = EDGE / grid;
  const found = Float32Array.from({ length: count }, (_, j) => kind === "rollout" ? rolled[row * count + j] : kind === "layer" && maps ? weightAt(row, leading + j) : 0);
  const most = Math.max(...found);
  if (kind !== "none" && most > 0) {
    const image = new ImageData(grid, grid);
    found.forEach((value, j) => image.data.set(heat(value / most), 4 * j));
    brush.imageSmoothingEnabled = true;
    brush.drawImage(asCanvas(image), 0, 0, EDGE, EDGE);
  }
  if (row >= leading) {
    brush.strokeStyle = "#fff";
    brush.lineWidth = 2;
    brush.strokeRect(((row - leading) % grid) * size + 1, Math.floor((row - leading) / grid) * size + 1, size - 2, size - 2);
  }
  const best = [...found.keys()].sort((a, b) => found[b] - found[a]).slice(0, 3).map((j) => part().columns[leading + j]);
  const what = kind === "rollout" || state.layer === "rollout" ? "Rollout" : `Layer ${state.layer}, ${headsName()}`;
  tell("picture", kind === "none" ? "" : `${what}: ${part().rows[row]} attends most to ${best.join("; ")}`);
}

// Cold and clear where the weight is small, warm where it is large, so that it stands out on any picture.
const heat = (share) => [255 * Math.min(1, 2 * share), 230 * share * share, 60 * (1 - share), 40 + 170 * share];

pictureCanvas.addEventListener("click", (event) => {
  const box = pictureCanvas.getBoundingClientRect(), { grid, leading } = data.picture;
  const x = Math.floor(((event.clientX - box.left) / box.width) * grid), y = Math.floor(((event.clientY - box.top) / box.height) * grid);
  change({ row: leading + Math.min(y, grid - 1) * grid + Math.min(x, grid - 1) });
});
pictureCanvas.addEventListener("keydown", (event) => {
  const { grid, leading } = data.picture, count = part().rows.length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: grid, ArrowUp: -grid }[event.key];
  if (event.key === "Escape") change({ row: -1 });
  else if (step) {
    const next = state.row < leading ? leading : state.row + step;
    if (next >= leading && next < count) change({ row: next });
  } else return;
  event.preventDefault();
});
