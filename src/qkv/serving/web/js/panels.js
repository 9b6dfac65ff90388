// The panels, in the order of their tabs. A model gets those that its verbs allow.
import { answer } from "./panels/answer.js";
import { classify } from "./panels/classify.js";
import { fill } from "./panels/fill.js";
import { generate } from "./panels/generate.js";
import { image } from "./panels/image.js";
import { look } from "./panels/look.js";
import { pairs } from "./panels/pairs.js";
import { search } from "./panels/search.js";
import { similar } from "./panels/similar.js";
import { tag } from "./panels/tag.js";
import { translate } from "./panels/translate.js";

const PANELS = [translate, classify, pairs, tag, answer, fill, generate, image, similar, search, look];

/** Return the panels of a model. That of images looks inside by itself. */
export const offered = (model) => PANELS.filter((panel) => model.verbs.includes(panel.verb) && !(panel === look && model.verbs.includes("image")));
