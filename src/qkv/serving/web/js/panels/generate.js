// Generate: the text as it comes, then each token with the likeliest ones in its place.
import { announce, element, roving } from "../dom.js";
import { prompts } from "../examples.js";
import { choice, longText, number } from "../fields.js";
import { count, percent, placed } from "../text.js";
import { bars } from "../views/bars.js";

const ENDS = { end: "The model ended the text.", length: "The text has reached its length.", stop: "The text has reached a stop string." };

export const generate = {
  name: "generate",
  title: "Generate",
  verb: "generate",
  lead: "The model writes on, token by token. Then point at a token to see what else it could have written.",
  fields: () => [
    longText("prompt", "Prompt", { placeholder: "Once upon a time" }),
    number("length", "New tokens", { min: 1, max: 400, usual: 40 }),
    choice("temperature", "Choice of tokens", [["0", "the likeliest"], ["0.7", "careful"], ["1", "as likely"], ["1.3", "bold"]], "0.7"),
    number("seed", "Seed", { min: 0, max: 999999, usual: 1 }),
  ],
  examples: (model) => prompts(model).map((prompt) => ({ label: prompt, values: { prompt } })),

  async answer({ values, stream, show }) {
    const written = element("span", { class: "written" }), whole = textOf(values.prompt, written);
    show(whole);
    const body = {
      texts: [values.prompt], max_length: Number(values.length) || 40, probabilities: 6,
      temperature: Number(values.temperature), seed: Number(values.seed) || 0,
    };
    let found = null;
    await stream("generate", body, (event) => {
      if (event.text) written.append(event.text);
      if (event.answers) [found] = event.answers;
    });
    if (found === null) throw new Error("The server ended the stream without an answer.");
    return { node: steps(values.prompt, found), said: found.generated || "Nothing was generated." };
  },
};

const textOf = (prompt, written) => element("p", { class: "reading prose", dir: "auto" }, element("span", { class: "prompt" }, prompt), written);

/** Show each token as a stop of the arrow keys; its rivals are bars. */
function steps(prompt, found) {
  const beside = element("div", { class: "rivals" }), said = found.steps ?? [];
  const texts = placed(found.generated, said.map((step) => step.token));
  const tokens = said.flatMap((step, number) => {
    const share = step.choices.find((one) => one.word === step.token)?.score ?? null, text = texts[number];
    const ends = !text && found.ended === "end" && number === said.length - 1;
    if (!text && !ends) return []; // the rest of a character
    const token = element("span", { class: ends ? "token end" : "token", role: "img", "aria-label": step.token, vars: { share: share ?? 0 } }, text || step.token);
    const show = () => {
      for (const other of tokens) other.classList.toggle("here", other === token);
      const rows = step.choices.map((one) => ({ name: visible(one.word), share: one.score, chosen: one.word === step.token }));
      beside.replaceChildren(element("h3", {}, "In place of ", element("bdi", {}, `“${visible(step.token)}”`)), bars(rows, { relative: true }));
    };
    token.addEventListener("pointerenter", show);
    token.addEventListener("focus", () => { show(); announce(`${step.token}${share === null ? "" : `, ${percent(share)}`}`); });
    return token;
  });
  const group = element("span", { class: "written", role: "group", "aria-label": "Generated text, token by token" }, tokens.length ? tokens : found.generated);
  roving(group, tokens);
  tokens[0]?.dispatchEvent(new Event("pointerenter"));
  return element("div", {}, textOf(prompt, group), element("p", { class: "hint" }, `${count(said.length, "token")}. ${ENDS[found.ended] ?? ""}`), beside);
}

/** Show white space that would not be seen. */
const visible = (token) => token.replaceAll("\n", "↵").replaceAll(" ", "·");
