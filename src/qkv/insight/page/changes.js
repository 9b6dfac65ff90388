// Two models: how far each head moved, and the weights minus those of the other model.
// The other model's weights for the shown layer and heads, or null; the largest difference from them.
let theirs = null, largestDifference = 1;

const valueAt = (place) => mean[place] - (theirs === null ? 0 : theirs[place]);
const signed = (value) => `${value < 0 ? "−" : "+"}${percent(Math.abs(value))}`;
const isOther = () => part().name.startsWith("other-");
const twinName = () => isOther() ? part().kind : `other-${part().kind}`;

async function loadTheirs() {
  theirs = null;
  const comparable = data.beside?.parts[part().kind]?.same === true;
  one("#values-chooser").hidden = !comparable;
  if (!comparable || one("#values").value === "own" || maps === null) return;
  const stored = await bytes(`${twinName()}-weights-${state.layer}`);
  if (stored === null) return;
  theirs = averageOf(stored);
  largestDifference = mean.reduce((most, weight, i) => Math.max(most, Math.abs(weight - theirs[i])), 1e-9);
}

function drawChanges() {
  const found = data.beside?.parts[part().kind];
  one("#changes").hidden = found === undefined;
  if (found === undefined) return;
  const heads = found.distances[0].length, grid = one("#changes .grid");
  one("#changes .lead").textContent = `How far the attention of each head is from that of ${found.same ? "the same" : "the most similar"} head of `
    + `${data.beside.model}, in bits: 0 is the same attention, 1 is none in common. A row for each layer, a column for each head. Click one to see it.`;
  grid.style.gridTemplateColumns = `auto repeat(${heads}, max-content) 1fr`;
  grid.replaceChildren(...found.distances.flatMap((row, layer) => [
    element("span", String(layer)),
    ...row.map((value, head) => changeButton(value, layer, head)),
    element("span"),
  ]));
  const chosen = state.heads.size === 1 && state.layer !== "rollout" ? shownHeads()[0] : null, near = !isOther() && chosen !== null ? found.where[state.layer][chosen] : null;
  tell("changes", near === null ? "" : `Layer ${state.layer}, head ${chosen}: ${found.distances[state.layer][chosen].toFixed(2)} bits; `
    + `most similar in ${data.beside.model}: layer ${near[0]}, head ${near[1]} (${found.nearest[state.layer][chosen].toFixed(2)} bits)`);
}

function changeButton(value, layer, head) {
  const label = `layer ${layer}, head ${head}: ${value.toFixed(2)} bits`;
  const pressed = !isOther() && layer === state.layer && state.heads.size === 1 && state.heads.has(head);
  const button = element("button", value.toFixed(2), { type: "button", "aria-label": label, title: label, "aria-pressed": pressed });
  button.style.setProperty("--p", Math.sqrt(value));
  button.dataset.layer = layer;
  button.dataset.head = head;
  return button;
}

one("#changes .grid").addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (button === null) return;
  const layer = Number(button.dataset.layer), head = Number(button.dataset.head);
  const own = data.parts.findIndex(({ name }) => name === part().kind);
  await change({ part: own, layer, heads: new Set([head]) });
  one(`#changes button[data-layer="${layer}"][data-head="${head}"]`).focus({ preventScroll: true });
});
