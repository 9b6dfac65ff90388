// Examples: a click fills in the fields and asks, so that the first click shows something.

const ENGLISH = [
  "The small cat does not see the red apple.",
  "The old man has lost his keys.",
  "Two dogs are playing in the snow.",
  "I have never seen such a beautiful house.",
];
const GERMAN = ["Die kleine Katze sieht den roten Apfel nicht.", "Zwei Hunde spielen im Schnee.", "Ich habe noch nie ein so schönes Haus gesehen."];
const FRENCH = ["Le petit chat ne voit pas la pomme rouge.", "Deux chiens jouent dans la neige.", "Je n’ai jamais vu une aussi belle maison."];

/** Sentences in the language that a translator reads, as far as its name tells. */
export function translations(name) {
  const from = /\b(de|fr|en)[-_](\w\w)\b/i.exec(name)?.[1].toLowerCase();
  return { de: GERMAN, fr: FRENCH }[from] ?? ENGLISH;
}

const TOPICS = [
  "The central bank raised interest rates for the third time this year.",
  "The striker scored twice in the final minutes of the match.",
  "Astronomers found a planet that circles two stars.",
];
const FILMS = [
  "A warm, funny and beautifully acted film that I would watch again tomorrow.",
  "The plot is thin, the jokes fall flat and two hours feel like four.",
  "Not bad at all, although the ending comes too soon.",
];

/** Texts for a classifier, by the names of its labels. */
export const reviews = (labels = []) => (labels.some((label) => /sport|business|world|tech/i.test(label)) ? TOPICS : FILMS);

export const sentencePairs = [
  ["A man is playing a guitar.", "Someone is making music."],
  ["The company sold its last factory.", "The company bought a new factory."],
  ["Two dogs run through the snow.", "The animals are outside."],
];

export const named = [
  "Ada Lovelace met Charles Babbage in London in 1833.",
  "Airbus and Boeing sold fewer planes in Europe last year, said Maria Jensen of the Bank of Norway.",
  "In the semi-final, Brazil beat Sweden 1-0 in Los Angeles.",
];

const LIGHTHOUSE = "The lighthouse on the island was built in 1854 by the engineer Alan Stevenson. For more than a hundred years, "
  + "three keepers and their families lived there and lit the lamp every evening. In 1971 the light became automatic, and the "
  + "last keeper, Margaret Grant, left the island with her dog. Today the tower is a museum that opens from May to September.";
const AMAZON = "The Amazon rainforest covers much of the Amazon basin of South America. The basin covers 7,000,000 square kilometres, "
  + "of which 5,500,000 are covered by the rainforest. It includes territory of nine nations. Most of the forest is in Brazil, "
  + "with 60 %, followed by Peru with 13 % and Colombia with 10 %.";
export const questions = [
  { question: "Who built the lighthouse?", passage: LIGHTHOUSE },
  { question: "When did the last keeper leave?", passage: LIGHTHOUSE },
  { question: "Which country has most of the forest?", passage: AMAZON },
];

export const gaps = [
  "He drank a cup of [MASK] every morning.",
  "The king lived in a large [MASK] with his [MASK].",
  "She opened the [MASK] and began to read.",
];

const STORIES = ["Once upon a time there was", "The old man looked at the sea and", "It was the best"];
const TASKS = ["translate English to German: The house is small.", "summarize: The lighthouse was built in 1854. It is a museum today."];

/** Prompts: for a T5, its own tasks. */
export function prompts(model) {
  if (model.family !== "t5") return STORIES;
  const prefixes = Object.values(model.tasks).filter(Boolean).slice(0, 3);
  return prefixes.length ? prefixes.map((prefix) => `${prefix}The house is small.`) : TASKS;
}

export const sentences = [
  [
    "A dog is running through the snow.",
    "An animal plays outside in winter.",
    "The bank raised its interest rates.",
    "Loans have become more expensive.",
    "She cooks soup with carrots and beans.",
  ],
  [
    "How do I change my password?",
    "I cannot sign in to my account.",
    "When will my order arrive?",
    "The parcel has not come yet.",
  ],
];

export const notes = {
  queries: ["a woman makes music", "He is ill.", "a broken engine", "kids playing outside"],
  lines: [
    "The hotel is near the beach and has a swimming pool.",
    "The train to Berlin leaves at six in the morning.",
    "We grilled fish and ate it with bread and lemon.",
    "The museum shows paintings from the seventeenth century.",
    "Two children are building a castle of sand.",
    "The doctor told him to stay in bed for a week.",
    "She plays the violin in an orchestra.",
    "The car would not start because it was so cold.",
  ],
};

/** Inputs to look at, by what the model does. */
export function looks(model) {
  if (model.verbs.includes("translate")) return translations(model.id).slice(0, 3);
  if (model.verbs.includes("fill")) return gaps;
  if (model.verbs.includes("generate")) return STORIES;
  return model.verbs.includes("tag") ? named : reviews(model.labels);
}
