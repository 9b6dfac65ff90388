// The head view: two columns of tokens, and lines between them (Vig 2019).
const ROW = 22, PAD = 8, FAINTEST = 0.01, MOST_LINES = 1500;
const headView = one("#heads .view");
let pointed = null; // {side, index} of the token under the pointer
const headScroll = scroller(headView, paintHeads);

const namesWidth = (width) => Math.min(170, Math.round(width * 0.34));
const middle = (index) => PAD + index * ROW + ROW / 2;

function drawHeads() {
  const { rows, columns, heads } = part();
  one("#heads .chips").classList.toggle("one", heads === 1);
  headScroll.resize(headView.clientWidth, 2 * PAD + ROW * Math.max(rows.length, columns.length));
  const chosen = focus();
  if (maps === null) tell("heads", "");
  else if (chosen === null) tell("heads", "");
  else tell("heads", chosen.side === 0 ? saidOfRow(chosen.index) : saidOfColumn(chosen.index));
}

function focus() {
  if (pointed !== null) return pointed;
  return state.row >= 0 ? { side: 0, index: state.row } : null;
}

function saidOfRow(i) {
  const best = strongest(i, 5).filter(([weight]) => weight >= 0.005);
  return `${part().rows[i]} attends to ${best.map(([weight, name]) => `${name} ${percent(weight)}`).join(", ")} (${headsName()})`;
}

function saidOfColumn(j) {
  const found = part().rows.map((name, i) => [weightAt(i, j), name]).sort((a, b) => b[0] - a[0]).slice(0, 5);
  const best = found.filter(([weight]) => weight >= 0.005);
  return `${part().columns[j]} is attended to by ${best.map(([weight, name]) => `${name} ${percent(weight)}`).join(", ")} (${headsName()})`;
}

function paintHeads(brush, seen) {
  const { rows, columns } = part();
  const names = namesWidth(seen.width), left = names + PAD, right = seen.width - names - PAD;
  const chosen = focus();
  const shown = (index) => middle(index) >= seen.y - ROW && middle(index) <= seen.y + seen.height + ROW;
  if (maps !== null) {
    behindTokens(brush, seen, chosen, left, right);
    const drawn = chosen?.side === 0 ? [chosen.index] : rows.map((_, i) => i).filter((i) => chosen !== null || shown(i));
    const faintest = threshold(drawn, chosen);
    for (const i of drawn) for (const head of state.heads) lines(brush, seen, i, head, chosen, faintest, left, right);
  }
  brush.globalAlpha = 1;
  brush.fillStyle = colours.ink;
  rows.forEach((name, i) => { if (shown(i)) token(brush, seen, name, left - 6, i, names, "right", chosen?.side === 0 && chosen.index === i); });
  columns.forEach((name, j) => { if (shown(j)) token(brush, seen, name, right + 6, j, names, "left", chosen?.side === 1 && chosen.index === j); });
}

function token(brush, seen, name, x, index, width, align, bold) {
  brush.font = `${bold ? "700 " : ""}13px system-ui, sans-serif`;
  write(brush, name, x, middle(index) - seen.y, width - 4, align);
}

// The smallest stored byte that is drawn: no line fainter than a share of the strongest, and not more than can be seen.
// Where very many weights are equal, every so many of them is drawn.
function threshold(drawn, chosen) {
  const { rows, columns } = part(), counts = new Uint32Array(256);
  for (const i of drawn) {
    for (const head of state.heads) {
      const start = (head * rows.length + i) * columns.length;
      if (chosen?.side === 1) counts[maps[start + chosen.index]]++;
      else for (let j = 0; j < columns.length; j++) counts[maps[start + j]]++;
    }
  }
  const strongest = counts.findLastIndex((count) => count > 0), floor = FAINTEST * weightOf[strongest];
  let lowest = 256, lines = 0;
  while (lowest > 1 && lines < MOST_LINES && weightOf[lowest - 1] > floor) lines += counts[--lowest];
  const spare = lines - MOST_LINES;
  const every = spare > 0 ? Math.ceil(counts[lowest] / Math.max(counts[lowest] - spare, 1)) : 1;
  return { lowest, every, passed: 0, most: Math.max(weightOf[strongest], 0.02) };
}

function lines(brush, seen, i, head, chosen, faintest, left, right) {
  const { rows, columns } = part();
  const start = (head * rows.length + i) * columns.length;
  brush.strokeStyle = headColour(head);
  for (let j = 0; j < columns.length; j++) {
    if (chosen?.side === 1 && j !== chosen.index) continue;
    if (maps[start + j] < faintest.lowest) continue;
    if (maps[start + j] === faintest.lowest && faintest.passed++ % faintest.every) continue;
    const weight = weightOf[maps[start + j]] / faintest.most;
    const line = clipped(left, middle(i) - seen.y, right, middle(j) - seen.y, seen.height);
    if (line === null) continue;
    brush.globalAlpha = chosen === null ? weight * 0.8 : 0.15 + 0.85 * weight;
    brush.lineWidth = 1 + 2.5 * weight;
    brush.beginPath();
    brush.moveTo(line[0], line[1]);
    brush.lineTo(line[2], line[3]);
    brush.stroke();
  }
}

// Keep the part of a line between 0 and the height: a canvas takes its time over lines that are mostly outside.
function clipped(x1, y1, x2, y2, height) {
  const low = -ROW, high = height + ROW;
  if (Math.max(y1, y2) < low || Math.min(y1, y2) > high) return null;
  const at = (y) => x1 + ((x2 - x1) * (y - y1)) / (y2 - y1);
  const end = (x, y) => y < low ? [at(low), low] : y > high ? [at(high), high] : [x, y];
  return [...end(x1, y1), ...end(x2, y2)];
}

// Shade the tokens on the other side of the chosen one by their weight.
function behindTokens(brush, seen, chosen, left, right) {
  if (chosen === null) return;
  const { rows, columns } = part();
  brush.fillStyle = `rgb(${colours.accent})`;
  const others = chosen.side === 0 ? columns.length : rows.length;
  for (let index = 0; index < others; index++) {
    const weight = chosen.side === 0 ? weightAt(chosen.index, index) : weightAt(index, chosen.index);
    brush.globalAlpha = 0.6 * Math.sqrt(weight / largest);
    if (chosen.side === 0) brush.fillRect(right, middle(index) - ROW / 2 + 1 - seen.y, seen.width - right, ROW - 2);
    else brush.fillRect(0, middle(index) - ROW / 2 + 1 - seen.y, left, ROW - 2);
  }
}

function tokenAt(event) {
  const [x, y] = headScroll.place(event);
  const names = namesWidth(headView.clientWidth) + PAD;
  const side = x < names ? 0 : x > headView.clientWidth - names ? 1 : -1;
  const index = Math.floor((y - PAD) / ROW);
  const count = side === 0 ? part().rows.length : part().columns.length;
  return side < 0 || index < 0 || index >= count ? null : { side, index };
}

headView.addEventListener("pointermove", (event) => {
  const found = tokenAt(event);
  if (found?.side === pointed?.side && found?.index === pointed?.index) return;
  pointed = found;
  drawHeads();
});
headView.addEventListener("pointerleave", () => { pointed = null; drawHeads(); });
headView.addEventListener("click", (event) => {
  const found = tokenAt(event);
  if (found === null) return;
  if (found.side === 0) change({ row: state.row === found.index ? -1 : found.index });
  else change({ column: found.index });
});
headView.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") change({ row: -1 });
  else if (step) moveRow(step);
  else return;
  event.preventDefault();
});

function moveRow(step) {
  pointed = null;
  change({ row: Math.min(Math.max(state.row + step, 0), part().rows.length - 1) });
}

function drawChips() {
  const chips = one("#heads .chips");
  chips.replaceChildren(...Array.from({ length: part().heads }, (_, head) => {
    const chip = element("button", String(head), { type: "button", "aria-label": `head ${head}`, "aria-pressed": state.heads.has(head) });
    chip.style.setProperty("--chip", headColour(head));
    chip.addEventListener("click", () => {
      const heads = new Set(state.heads);
      if (!heads.delete(head)) heads.add(head);
      if (heads.size) change({ heads });
      one(`#heads .chips button:nth-child(${head + 1})`).focus();
    });
    return chip;
  }));
}
