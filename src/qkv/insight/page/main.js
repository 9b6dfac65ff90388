// The choosers, and what follows a change.
function fill(select, names, chosen) {
  select.replaceChildren(...names.map(([value, text]) => element("option", text, { value })));
  select.value = chosen;
}

function fillChoosers() {
  const { rows, layers, heads, stored, rollout } = part();
  const all = stored.length === layers;
  const names = Array.from({ length: layers }, (_, l) => [l, all || stored.includes(l) ? `${l}` : `${l} (thumbnails)`]);
  fill(one("#layer"), [...names, ...(rollout ? [["rollout", "rollout through all"]] : [])], state.layer);
  fill(one("#head"), [["all", "all"], ...Array.from({ length: heads }, (_, h) => [h, `${h}`])], "all");
  fill(one("#row"), [[-1, "none"], ...rows.map((name, i) => [i, `${i}: ${name}`])], state.row);
  one("#part-chooser").hidden = data.parts.length === 1;
  one("#stored").textContent = all ? "" : stored.length
    ? `The input is long: all weights are stored for layer ${stored.join(", ")}, thumbnails for the others.`
    : "The input is very long: thumbnails are stored for every head, all weights for none.";
  const [asks, asked] = { encoder: ["Tokens that attend", "tokens they attend to"], decoder: ["Tokens that attend", "tokens they attend to"], cross: ["Tokens the decoder writes", "tokens of the source"] }[part().kind];
  one("#heads .asks").textContent = asks;
  one("#heads .asked").textContent = asked;
  one("#matrix .lead").textContent = part().kind === "cross"
    ? "The source across, the target down: each row is the token that is being written."
    : "Each row is a token that attends, each column a token it attends to.";
}

function showHead() {
  const { heads } = part();
  one("#head").disabled = state.layer === "rollout";
  one("#head").value = state.layer === "rollout" || (state.heads.size === heads && heads > 1) ? "all" : state.heads.size === 1 ? shownHeads()[0] : "";
}

// Rollout is over all heads, and stored as one.
const readLayer = (value) => value === "rollout" ? { layer: value, heads: new Set([0]) }
  : { layer: Number(value), ...(state.layer === "rollout" ? { heads: everyHead() } : {}) };

const everyHead = () => new Set(Array.from({ length: part().heads }, (_, head) => head));

// Every change of what is shown goes through here.
async function change(wanted) {
  if (wanted.part !== undefined && wanted.part !== state.part) {
    const before = part();
    state.part = wanted.part;
    // The same kind of attention in two models of the same shape: the layer, the heads and the token stay.
    const stays = before.kind === part().kind && before.layers === part().layers && before.heads === part().heads;
    if (!stays) Object.assign(state, { layer: part().layer, heads: everyHead(), row: -1, column: -1 });
    thumbs = await bytes(`${part().name}-thumbs`);
    fillChoosers();
    drawModel();
  }
  const { part: _, ...rest } = wanted;
  Object.assign(state, rest);
  await draw();
  if (state.row < 0 || wanted.row === undefined) return;
  reveal(headView, middle(state.row));
  reveal(matrixView, marginTop + (state.row + 0.5) * cell);
}

async function draw() {
  const asked = `${part().name}-weights-${state.layer}`;
  const found = await bytes(asked);
  if (asked !== `${part().name}-weights-${state.layer}`) return; // another change came in between
  maps = found;
  if (maps !== null) average();
  await loadTheirs();
  one("#part").value = state.part;
  one("#layer").value = state.layer;
  one("#row").value = state.row;
  document.body.classList.toggle("rolled", state.layer === "rollout");
  showHead();
  drawChips();
  markModel();
  drawChanges();
  drawHeads();
  drawMatrix();
  drawPicture();
  await drawSteps();
  document.body.dataset.ready = "yes";
}

one("#part").addEventListener("change", (event) => change({ part: Number(event.target.value) }));
one("#layer").addEventListener("change", (event) => change(readLayer(event.target.value)));
one("#head").addEventListener("change", (event) => change({ heads: event.target.value === "all" ? everyHead() : new Set([Number(event.target.value)]) }));
one("#row").addEventListener("change", (event) => change({ row: Number(event.target.value) }));
one("#choosers").addEventListener("submit", (event) => event.preventDefault());

async function start() {
  readColours();
  fill(one("#part"), data.parts.map((each, i) => [i, data.beside === null ? each.title : `${each.title} · ${each.model}`]), 0);
  Object.assign(state, { layer: part().layer, heads: everyHead() });
  thumbs = await bytes(`${part().name}-thumbs`);
  fillChoosers();
  drawModel();
  setUpAnswers();
  await draw();
  await setUpPicture();
  let width = one("main").clientWidth;
  new ResizeObserver(() => {
    if (one("main").clientWidth === width) return;
    width = one("main").clientWidth;
    drawHeads();
    drawMatrix();
  }).observe(one("main"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); drawModel(); draw(); });
}

start();
