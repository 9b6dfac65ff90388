// q·k, scaling and softmax of one query, number by number.
const SHOWN = 16; // keys in the table
let stepsAsked = 0;

async function drawSteps() {
  const { rows, columns, steps, heads, same } = part();
  const lead = one("#steps .lead"), table = one("#steps table");
  const head = shownHeads()[0], row = Math.max(state.row, 0), layer = state.layer;
  table.replaceChildren();
  one("#steps .rest").textContent = "";
  one("#steps details").hidden = true;
  const scale = steps.scales?.[layer];
  if (scale === undefined) {
    stepsAsked++;
    const stored = Object.keys(steps.scales ?? {});
    lead.textContent = layer === "rollout" ? "Rollout multiplies the weights of all layers: choose a layer to see how one is computed." : stored.length ? `q and k are stored for layer ${stored.join(", ")} only.` : "The scores of this attention are not one product of q and k.";
    return;
  }
  const asked = ++stepsAsked;
  const found = await scores(layer, head, row);
  if (found === null || asked !== stepsAsked) return; // another change came in between
  const { q, keys, raw, bias, score, power, weight } = found;
  lead.textContent = `${rows[row]} asks with q, and each token answers with k: here in layer ${layer}, head ${head}, with ${q.length} numbers each. `
    + `q·k is multiplied by ${number(scale)}${bias ? ", the position scheme adds its bias," : ""} and the softmax turns the scores into weights that sum to 1.`
    + (state.row < 0 ? " Choose a token to see its weights." : "");
  const seen = columns.map((_, j) => j).filter((j) => score[j] > -Infinity);
  const order = [...seen].sort((a, b) => weight[b] - weight[a]);
  const shown = order.slice(0, SHOWN).sort((a, b) => a - b);
  const header = ["token", "q·k", `× ${number(scale)}`, ...(bias ? ["+ bias"] : []), "exp", "softmax", ""];
  table.append(headOf(header));
  const body = element("tbody"), chosen = shown.includes(state.column) ? state.column : order[0];
  for (const j of shown) {
    const line = element("tr");
    line.classList.toggle("chosen", j === chosen);
    const name = element("th", "", { scope: "row" }), button = element("button", columns[j], { type: "button" });
    button.addEventListener("click", () => change({ column: j }));
    name.append(button);
    line.append(name, ...[raw[j], raw[j] * scale, ...(bias ? [score[j]] : []), power[j]].map((value) => element("td", number(value))));
    const track = element("td", "", { class: "track" }), bar = element("i");
    bar.style.width = `${100 * weight[j]}%`;
    track.append(bar);
    line.append(element("td", percent(weight[j])), track);
    body.append(line);
  }
  table.append(body);
  const rest = order.slice(SHOWN).reduce((sum, j) => sum + weight[j], 0), masked = columns.length - seen.length;
  one("#steps .rest").textContent = [
    "exp is taken after the largest score is subtracted, as the kernels do.",
    order.length > SHOWN ? `${order.length - SHOWN} more tokens have ${percent(rest)} together.` : "",
    masked ? `${masked} tokens are masked: their score is −∞.` : "",
  ].join(" ");
  one("#steps details").hidden = false;
  const terms = Array.from(q, (value, d) => `${number(value)} × ${number(keys[chosen][d])}`);
  one("#steps .product").textContent = `${rows[row]} · ${columns[chosen]} = ${terms.join(" + ")} = ${number(raw[chosen])}`;
}

function headOf(names) {
  const top = element("thead"), line = element("tr");
  line.append(...names.map((name) => element("th", name, { scope: "col" })));
  top.append(line);
  return top;
}

const number = (value) => Math.abs(value) >= 1000 || (value !== 0 && Math.abs(value) < 0.0005) ? value.toExponential(1) : value.toFixed(3);

async function scores(layer, head, row) {
  const { name, rows, columns, heads, steps } = part();
  const packed = await bytes(`${name}-qk-${layer}`);
  if (packed === null) return null;
  const { kv, width, causal, window: reach } = steps;
  const q = halves(packed, (row * heads + head) * width, width);
  const first = rows.length * heads * width, shared = Math.floor(head / (heads / kv));
  const keys = columns.map((_, j) => halves(packed, first + (j * kv + shared) * width, width));
  const raw = keys.map((key) => key.reduce((sum, value, d) => sum + value * q[d], 0));
  const packedBias = await bytes(`${name}-bias-${layer}`);
  const bias = packedBias === null ? null : halves(packedBias, (head * rows.length + row) * columns.length, columns.length);
  const visible = (j) => {
    const distance = j - row - (columns.length - rows.length) * (causal ? 1 : 0);
    return distance <= (causal ? 0 : reach ?? Infinity) && distance >= -(reach ?? Infinity);
  };
  const score = raw.map((value, j) => visible(j) ? value * steps.scales[layer] + (bias ? bias[j] : 0) : -Infinity);
  const top = Math.max(...score);
  const power = score.map((value) => Math.exp(value - top)), sum = power.reduce((a, b) => a + b, 0);
  return { q, keys, raw, bias, score, power, weight: power.map((value) => value / sum) };
}
