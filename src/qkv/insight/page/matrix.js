// One matrix: tokens that attend down, tokens they attend to across.
const matrixView = one("#matrix .view");
const matrixScroll = scroller(matrixView, paintMatrix);
let cell = 26, marginLeft = 90, marginTop = 80;
let under = null; // [i, j] of the cell under the pointer

const SMALLEST_NAMED = 11;

function drawMatrix() {
  const { rows, columns } = part();
  const asked = Number(one("#zoom").value), room = matrixView.clientWidth;
  const named = (size) => size >= SMALLEST_NAMED;
  const longest = (names) => Math.min(130, 14 + 7.6 * names.reduce((most, name) => Math.max(most, [...name].length), 0));
  const fit = Math.min(36, (room - longest(rows) - 4) / columns.length);
  cell = asked || (named(fit) ? Math.floor(fit) : Math.max(Math.min((room - 4) / columns.length, 10), 0.5));
  marginLeft = named(cell) ? longest(rows) : 2;
  marginTop = named(cell) ? Math.round(longest(columns) * 0.8) + 8 : 2;
  const spare = named(cell) ? Math.round(longest(columns) * 0.6) : 2;
  matrixScroll.resize(Math.max(marginLeft + cell * columns.length + spare, 10), marginTop + cell * rows.length + 4);
  sayMatrix();
}

function sayMatrix() {
  const at = under ?? (state.row >= 0 && state.column >= 0 ? [state.row, state.column] : null);
  if (at === null || maps === null) return tell("matrix", "");
  const value = valueAt(at[0] * part().columns.length + at[1]);
  const told = theirs === null ? percent(value) : `${signed(value)}, from ${percent(weightAt(...at) - value)} to ${percent(weightAt(...at))}`;
  tell("matrix", `${part().rows[at[0]]} → ${part().columns[at[1]]}: ${told} (${headsName()})`);
}

function paintMatrix(brush, seen) {
  const { rows, columns } = part();
  const first = Math.max(0, Math.floor((seen.y - marginTop) / cell)), last = Math.min(rows.length, Math.ceil((seen.y + seen.height - marginTop) / cell));
  const start = Math.max(0, Math.floor((seen.x - marginLeft) / cell)), end = Math.min(columns.length, Math.ceil((seen.x + seen.width - marginLeft) / cell));
  if (last > first && end > start) {
    const x = marginLeft + start * cell - seen.x, y = marginTop + first * cell - seen.y;
    brush.imageSmoothingEnabled = false;
    if (maps === null) enlargedThumb(brush, seen);
    else {
      brush.drawImage(cells(first, last, start, end), x, y, (end - start) * cell, (last - first) * cell);
      if (cell >= 24) numbers(brush, seen, first, last, start, end);
    }
  }
  if (cell >= SMALLEST_NAMED) names(brush, seen, first, last, start, end);
  mark(brush, seen);
}

// The weight, or the difference from the other model's, that is drawn darkest.
const full = () => one("#shade").value === "absolute" ? 1 : theirs === null ? largest : largestDifference;

// The visible cells as an image of one pixel each, shaded by the root of the weight, so that 10 % is still visible.
// Where cells are smaller than pixels, a pixel is the largest one it covers: the mean would hide lines and diagonals.
function cells(first, last, start, end) {
  const { columns } = part(), step = Math.max(1, Math.ceil(1 / cell));
  const image = new ImageData(Math.ceil((end - start) / step), Math.ceil((last - first) / step)), most = full();
  const largestIn = (top, left) => {
    let found = 0;
    for (let i = top; i < Math.min(top + step, last); i++) {
      for (let j = left; j < Math.min(left + step, end); j++) {
        const value = valueAt(i * columns.length + j);
        if (Math.abs(value) > Math.abs(found)) found = value;
      }
    }
    return found;
  };
  let pixel = 0;
  for (let i = first; i < last; i += step) {
    for (let j = start; j < end; j += step) {
      const value = largestIn(i, j), [red, green, blue] = value < 0 ? colours.below : colours.levels;
      image.data[pixel] = red;
      image.data[pixel + 1] = green;
      image.data[pixel + 2] = blue;
      image.data[pixel + 3] = 255 * Math.sqrt(Math.abs(value) / most);
      pixel += 4;
    }
  }
  return asCanvas(image);
}

function asCanvas(image) {
  const made = document.createElement("canvas");
  made.width = image.width;
  made.height = image.height;
  made.getContext("2d").putImageData(image, 0, 0);
  return made;
}

function enlargedThumb(brush, seen) {
  const { rows, columns } = part();
  brush.drawImage(thumbImage(state.layer, shownHeads()[0]), marginLeft - seen.x, marginTop - seen.y, columns.length * cell, rows.length * cell);
}

function numbers(brush, seen, first, last, start, end) {
  const { columns } = part();
  brush.font = `${cell >= 32 ? 12 : 10}px system-ui, sans-serif`;
  brush.textAlign = "center";
  for (let i = first; i < last; i++) {
    for (let j = start; j < end; j++) {
      const value = valueAt(i * columns.length + j);
      if (Math.abs(value) < 0.005) continue;
      brush.fillStyle = Math.sqrt(Math.abs(value) / full()) > 0.55 ? colours.card : colours.ink;
      brush.fillText(Math.round(100 * value), marginLeft + (j + 0.5) * cell - seen.x, marginTop + (i + 0.5) * cell - seen.y);
    }
  }
}

function names(brush, seen, first, last, start, end) {
  const { rows, columns } = part();
  brush.fillStyle = colours.card;
  brush.fillRect(0, 0, seen.width, marginTop);
  brush.fillRect(0, 0, marginLeft, seen.height);
  brush.font = `${cell < 14 ? 11 : 13}px system-ui, sans-serif`;
  brush.fillStyle = colours.ink;
  for (let i = first; i < last; i++) {
    const y = marginTop + (i + 0.5) * cell - seen.y;
    if (y > marginTop) write(brush, rows[i], marginLeft - 6, y, marginLeft - 10, "right");
  }
  for (let j = start; j < end; j++) {
    const x = marginLeft + (j + 0.5) * cell - seen.x;
    if (x < marginLeft) continue;
    brush.save();
    brush.translate(x, marginTop - 8);
    brush.rotate(-Math.PI / 3.6);
    write(brush, columns[j], 0, 0, marginTop * 1.2, "left");
    brush.restore();
  }
}

function mark(brush, seen) {
  const at = under ?? [state.row, state.column];
  brush.strokeStyle = `rgb(${colours.accent})`;
  brush.lineWidth = 2;
  const { rows, columns } = part();
  if (at[0] >= 0) brush.strokeRect(marginLeft - seen.x, marginTop + at[0] * cell - seen.y, columns.length * cell, cell);
  if (at[0] >= 0 && at[1] >= 0) brush.strokeRect(marginLeft + at[1] * cell - seen.x, marginTop + at[0] * cell - seen.y, cell, cell);
}

function cellAt(event) {
  const [x, y] = matrixScroll.place(event);
  const i = Math.floor((y - marginTop) / cell), j = Math.floor((x - marginLeft) / cell);
  const hidden = x - matrixView.scrollLeft < marginLeft || y - matrixView.scrollTop < marginTop;
  return hidden || i < 0 || j < 0 || i >= part().rows.length || j >= part().columns.length ? null : [i, j];
}

matrixView.addEventListener("pointermove", (event) => { under = cellAt(event); sayMatrix(); matrixScroll.later(); });
matrixView.addEventListener("pointerleave", () => { under = null; sayMatrix(); matrixScroll.later(); });
matrixView.addEventListener("click", (event) => {
  const found = cellAt(event);
  if (found) change({ row: found[0], column: found[1] });
});
matrixView.addEventListener("keydown", (event) => {
  const down = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0, across = { ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0;
  if (event.key === "Escape") change({ row: -1, column: -1 });
  else if (down || across) {
    const { rows, columns } = part();
    const row = Math.min(Math.max(state.row + down, 0), rows.length - 1), column = Math.min(Math.max(state.column + across, 0), columns.length - 1);
    under = null;
    change({ row, column });
    const x = marginLeft + column * cell;
    if (x - matrixView.scrollLeft < marginLeft || x + cell > matrixView.scrollLeft + matrixView.clientWidth) matrixView.scrollLeft = x - matrixView.clientWidth / 2;
  } else return;
  event.preventDefault();
});
one("#zoom").addEventListener("change", drawMatrix);
one("#values").addEventListener("change", draw);
one("#shade").addEventListener("change", drawMatrix);
