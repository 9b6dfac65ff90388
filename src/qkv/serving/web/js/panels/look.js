// Look inside: the page of `qkv look` for any input, in a frame of its own.
import { element } from "../dom.js";
import { looks } from "../examples.js";
import { longText, shortText } from "../fields.js";
import { needed } from "../panel.js";
import { lookFrame } from "../views/frame.js";

export const look = {
  name: "look",
  title: "Look inside",
  action: "Look",
  verb: "look",
  lead: "The attention of every layer and head, and what each layer would already answer.",
  fields: (model) => [
    longText("text", "Text", { rows: 2 }),
    ...(takesSecond(model) ? [shortText("target", model.verbs.includes("translate") ? "Translation" : "Second text", { placeholder: model.verbs.includes("translate") ? "Empty: the model's own" : "Only for pairs" })] : []),
  ],
  examples: (model) => looks(model).map((text) => ({ label: text, values: { text } })),

  async answer({ model, values, ask }) {
    const texts = [needed(values.text, "Type a text to look at.")];
    const body = { texts, ...(values.target?.trim() && { targets: [values.target] }), html: true };
    const [found] = await ask("look", body);
    const parts = Object.entries(found.parts).map(([name, { layers, heads }]) => `${name}: ${layers} × ${heads} heads`).join(", ");
    return { node: element("div", {}, lookFrame(found.html, `${model.id}-look.html`)), said: `Attention of ${parts}` };
  },
};

/** Whether a model reads a second text: a translation, or the second of a pair. */
const takesSecond = (model) => model.family !== "gpt";
