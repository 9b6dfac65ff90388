// Answers: probabilities as bars, and the answers that each layer's state would give.
const BEST = 3; // answers of each layer in the table

function setUpAnswers() {
  if (data.lens === null) return;
  one("#answers").hidden = false;
  one("#place").append(...data.lens.places.map((name, i) => element("option", `${data.lens.places.length > 1 ? `${i}: ` : ""}${name}`, { value: i })));
  one("#place").addEventListener("change", drawAnswers);
  one("#place").value = data.lens.wanted.every((one) => one !== null) ? 0 : data.lens.places.length - 1;
  drawAnswers();
}

function drawAnswers() {
  const place = Number(one("#place").value), { layers, choices, wanted } = data.lens;
  const right = wanted[place], own = choices[place].at(-1), other = data.beside?.lens ?? null;
  one("#answers .bars").replaceChildren(...barsOf(data.lens, place));
  one("#other-name").hidden = one("#answers .other").hidden = other === null;
  if (other !== null) {
    one("#other-name").textContent = data.beside.model;
    one("#answers .other").replaceChildren(...barsOf(other, place));
  }
  const table = one("#answers table");
  table.hidden = layers.length < 2;
  const header = ["state after", ...Array.from({ length: Math.min(BEST, own.length) }, (_, i) => `answer ${i + 1}`), ...(right ? [`${right[0]} ✓`] : [])];
  const body = element("tbody");
  layers.forEach((layer, at) => {
    const line = element("tr");
    line.append(element("th", layer, { scope: "row" }));
    for (const [name, score] of choices[place][at].slice(0, BEST)) line.append(shaded(`${name} ${percent(score)}`, score));
    if (right) line.append(shaded(percent(right[1][at]), right[1][at]));
    body.append(line);
  });
  table.replaceChildren(headOf(header), body);
}

function barsOf({ choices, wanted }, place) {
  const right = wanted[place], best = choices[place].at(-1);
  const listed = right === null || best.some(([name]) => name === right[0]) ? best : [...best, [right[0], right[1].at(-1)]];
  return listed.flatMap(([name, score]) => {
    const isRight = right !== null && name === right[0];
    const bar = element("i"), label = element("span", isRight ? `${name} ✓` : name, isRight ? { class: "wanted", title: "the token that follows in the text" } : {});
    bar.style.width = `${Math.max(100 * score, 0.4)}%`;
    return [label, bar, element("span", percent(score))];
  });
}

function shaded(text, score) {
  const made = element("td", text);
  made.style.setProperty("--p", score);
  return made;
}
