// What the page holds: one JSON object, and blocks of bytes that are decompressed when they are first needed.
const data = JSON.parse(document.getElementById("data").textContent);
const blocks = new Map();

function bytes(id) {
  if (!blocks.has(id)) blocks.set(id, unpacked(document.getElementById(id)));
  return blocks.get(id);
}

async function unpacked(block) {
  if (block === null) return null;
  const raw = Uint8Array.fromBase64?.(block.textContent) ?? fromText(atob(block.textContent));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function fromText(text) {
  const raw = new Uint8Array(text.length);
  for (let i = 0; i < raw.length; i++) raw[i] = text.charCodeAt(i);
  return raw;
}

// Float16 to float32 (IEEE 754): sign, 5 bits of exponent, 10 bits of fraction.
function halves(found, start, count) {
  return Float32Array.from(new Uint16Array(found.buffer, 2 * start, count), (word) => {
    const exponent = (word >> 10) & 31, fraction = word & 1023;
    if (exponent === 31) return fraction ? NaN : word >> 15 ? -Infinity : Infinity;
    const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
    return word >> 15 ? -size : size;
  });
}

// Weights are stored as 255 times their root.
const weightOf = Float32Array.from({ length: 256 }, (_, byte) => (byte / 255) ** 2);

// What is shown. `row` and `column` are tokens that were chosen, or -1.
const state = { part: 0, layer: 0, heads: new Set(), row: -1, column: -1 };
const part = () => data.parts[state.part];
const shownHeads = () => [...state.heads].sort((a, b) => a - b);
const headsName = () => state.layer === "rollout" ? "rollout" : state.heads.size === 1 ? `head ${shownHeads()[0]}` : `mean of ${state.heads.size} heads`;

// The weights of the chosen layer, or null if they are not stored; their mean over the shown heads, and its largest.
let maps = null, mean = null, largest = 1;

function average() {
  mean = averageOf(maps);
  largest = mean.reduce((most, weight) => Math.max(most, weight), 1e-9);
}

function averageOf(stored) {
  const size = part().rows.length * part().columns.length, found = new Float32Array(size);
  for (const head of state.heads) {
    const own = stored.subarray(head * size, (head + 1) * size);
    for (let i = 0; i < size; i++) found[i] += weightOf[own[i]];
  }
  return found.map((sum) => sum / state.heads.size);
}

const weightAt = (i, j) => mean[i * part().columns.length + j];

function strongest(i, count) {
  const found = part().columns.map((name, j) => [weightAt(i, j), name, j]);
  return found.sort((a, b) => b[0] - a[0]).slice(0, count);
}

const percent = (value) => value >= 0.0995 ? `${Math.round(100 * value)} %` : `${(100 * value).toFixed(1)} %`;
