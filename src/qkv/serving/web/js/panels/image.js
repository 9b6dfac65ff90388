// Classify an image: its labels, and the picture with the attention over it.
import { element } from "../dom.js";
import { imageField } from "../image-field.js";
import { pictures } from "../pictures.js";
import { NothingToAsk } from "../panel.js";
import { lookFrame } from "../views/frame.js";
import { labelled } from "./classify.js";

export const image = {
  name: "image",
  title: "Image",
  action: "Classify",
  verb: "image",
  lead: "What is in the picture, and which patches the model looks at.",
  fields: (model) => [imageField("image", "Picture", pictures(model))],
  examples: (model) => pictures(model).map(({ name }) => ({ label: name, values: { image: name } })),

  async answer({ model, fields, ask, show }) {
    const picture = await fields.image.bytes();
    if (picture === null) throw new NothingToAsk("Choose a picture: a PNG or JPEG file.");
    const [found] = await ask("image", { texts: [picture], every: true });
    const labels = labelled(found);
    if (!model.verbs.includes("look")) return labels;
    show(element("div", {}, labels.node, element("p", { class: "waiting" }, "Looking at each layer …")));
    const [{ html }] = await ask("look", { texts: [picture], html: true });
    return { node: element("div", {}, labels.node, lookFrame(html, `${model.id}-look.html`)), said: labels.said };
  },
};
