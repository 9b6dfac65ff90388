// Answer: a question over a passage, with the answer marked in it.
import { element } from "../dom.js";
import { questions } from "../examples.js";
import { longText, shortText } from "../fields.js";
import { needed } from "../panel.js";
import { percent } from "../text.js";
import { bars } from "../views/bars.js";
import { spans } from "../views/spans.js";

export const answer = {
  name: "answer",
  title: "Answer",
  verb: "answer",
  lead: "Ask something that the passage answers; the answer is a piece of it.",
  fields: () => [shortText("question", "Question"), longText("passage", "Passage", { rows: 7 })],
  examples: () => questions.map(({ question, passage }) => ({ label: question, values: { question, passage } })),

  async answer({ values, ask }) {
    const passage = needed(values.passage, "Type or paste the passage to read."), question = needed(values.question, "Type a question.");
    const [best] = await ask("answer", { texts: [question], contexts: passage, nbest: 3 });
    const said = best.answer ? `Answer: ${best.answer}` : "The passage holds no answer.";
    return { node: found(passage, [best, ...(best.others ?? [])]), said };
  },
};

function found(passage, answers) {
  const whole = element("div");
  const choose = (chosen) => {
    const marked = chosen.end > chosen.start ? [chosen] : [];
    const rows = answers.map((one) => ({ name: one.answer || "no answer", share: one.score, chosen: one === chosen, one }));
    const again = (row) => {
      choose(row.one);
      whole.querySelectorAll(".bar-name")[answers.indexOf(row.one)].focus();
    };
    whole.replaceChildren(
      element("p", { class: "big", dir: "auto" }, chosen.answer || "No answer in this passage"),
      spans(passage, marked, (one, part) => element("mark", { class: "found", title: percent(one.score) }, part)),
      element("h3", {}, "Best answers"),
      bars(rows, { choose: again }));
  };
  choose(answers[0]);
  return whole;
}
