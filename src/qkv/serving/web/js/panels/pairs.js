// Classify a pair of texts: does the second follow from the first, do they mean the same?
import { sentencePairs } from "../examples.js";
import { longText } from "../fields.js";
import { needed } from "../panel.js";
import { everyOf, explained } from "./classify.js";

export const pairs = {
  name: "pairs",
  title: "Pairs",
  action: "Compare",
  verb: "pairs",
  lead: "For models that were trained on pairs: entailment, paraphrases, similarity.",
  fields: () => [longText("text", "First text", { rows: 2 }), longText("pair", "Second text", { rows: 2 })],
  examples: () => sentencePairs.map(([text, pair]) => ({ label: `${text} / ${pair}`, values: { text, pair } })),

  async answer({ model, values, ask, show }) {
    const given = { texts: [needed(values.text, "Type the first text.")], pairs: [needed(values.pair, "Type the second text.")] };
    const [found] = await ask("pairs", { ...given, ...everyOf(model) });
    return explained(found, given, ask, show);
  },
};
