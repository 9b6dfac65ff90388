"""Every metric with examples of its own: properties and memory are tested over this table."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qkv.evaluation.answers import AnswerF1, ExactMatch, normalise
from qkv.evaluation.classification import F1, Accuracy, BinaryF1, Matthews, MultiLabelF1, TagAccuracy
from qkv.evaluation.correlation import MeanSquaredError, Pearson, Spearman
from qkv.evaluation.entities import EntityF1
from qkv.evaluation.invalid import Farthest, Invalid
from qkv.evaluation.language import Perplexity
from qkv.evaluation.translation import Bleu, Chrf
from qkv.evaluation.words import Analogies, Vectors, WordSimilarity

VOCABULARY = ["the", "a", "big", "small", "dog", "cat", "horse", "runs", "sits", "sleeps", "in", "park", "today", "."]
TAGS = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@dataclass
class Entry:
    """A metric, an example of it from a random source, and what it gives where all is right."""

    make: Callable[[], object]
    example: Callable[[random.Random], tuple]
    perfect: float
    right: Callable[[tuple], tuple] = lambda example: (example[1], example[1])


def sentence(source: random.Random, least: int = 4) -> list[str]:
    return [source.choice(VOCABULARY) for _ in range(source.randint(least, 12))]


def noisy(source: random.Random, words: list[str], others: list[str] = VOCABULARY) -> list[str]:
    return [source.choice(others) if source.random() < 0.3 else word for word in words]


def labels(source: random.Random, kinds: int = 3) -> tuple[int, int]:
    gold = source.randrange(kinds)
    return (gold if source.random() < 0.6 else source.randrange(kinds)), gold


def label_sets(source: random.Random) -> tuple[set[str], set[str]]:
    def some() -> set[str]:
        return {label for label in "abcd" if source.random() < 0.4}

    gold = some()
    return (gold if source.random() < 0.5 else some()), gold


def numbers(source: random.Random) -> tuple[float, float]:
    # Numbers that float32 holds, so that Spearman loses nothing.
    gold = source.randrange(1000) / 64
    return gold + source.randrange(-500, 500) / 64, gold


def invalid_labels(source: random.Random) -> tuple[int | None, int]:
    said, gold = labels(source)
    return (None if source.random() < 0.2 else said), gold


def invalid_numbers(source: random.Random) -> tuple[float | None, float]:
    said, gold = numbers(source)
    return (None if source.random() < 0.2 else said), gold


def tags(source: random.Random) -> tuple[list[str], list[str]]:
    gold = [source.choice(TAGS) for _ in range(source.randint(1, 12))]
    return noisy(source, gold, TAGS), gold


def answers(source: random.Random) -> tuple[str, list[str]]:
    golds = [" ".join(sentence(source, 1)) for _ in range(source.randrange(3))]
    return " ".join(noisy(source, golds[0].split()) if golds else sentence(source)[: source.randrange(2)]), golds


def translations(source: random.Random) -> tuple[str, list[str]]:
    gold = sentence(source)
    return " ".join(noisy(source, gold)), [" ".join(gold)]


def likelihoods(source: random.Random) -> tuple[float, int, int, int]:
    tokens = source.randint(1, 40)
    return source.uniform(1.0, 4.0) * tokens, tokens, tokens // 2 + 1, tokens * 4


VECTORS = Vectors(VOCABULARY, np.random.default_rng(0).normal(size=(len(VOCABULARY), 8)))


def analogies(source: random.Random) -> tuple[str, str, str, str, str]:
    a, b, c = (source.choice(VOCABULARY) for _ in range(3))
    target = (
        VECTORS.unit_VD[VECTORS.find(b)[0]] - VECTORS.unit_VD[VECTORS.find(a)[0]] + VECTORS.unit_VD[VECTORS.find(c)[0]]
    )
    order = [VOCABULARY[i] for i in np.argsort(-(VECTORS.unit_VD @ target))]
    best = next(word for word in order if word not in (a, b, c))
    return source.choice(["one", "two"]), a, b, c, best if source.random() < 0.5 else source.choice(VOCABULARY)


def pairs(source: random.Random) -> tuple[str, str, float]:
    return source.choice(VOCABULARY), source.choice(VOCABULARY), source.randrange(100) / 8


def best_answer(example: tuple) -> tuple:
    return max(example[1], key=lambda gold: len(normalise(gold)), default=""), example[1]


METRICS: dict[str, Entry] = {
    "accuracy": Entry(Accuracy, labels, 1.0),
    "exact-labels": Entry(Accuracy, label_sets, 1.0),
    "f1-binary": Entry(BinaryF1, labels, 1.0),
    "f1-macro": Entry(F1, labels, 1.0),
    "f1-micro": Entry(lambda: F1(average="micro"), labels, 1.0),
    "f1-multi": Entry(MultiLabelF1, label_sets, 1.0),
    "f1-multi-macro": Entry(lambda: MultiLabelF1(average="macro"), label_sets, 1.0),
    "matthews": Entry(Matthews, labels, 1.0),
    "pearson": Entry(Pearson, numbers, 1.0),
    "spearman": Entry(Spearman, numbers, 1.0),
    "mse": Entry(MeanSquaredError, numbers, 0.0),
    "invalid": Entry(Invalid, invalid_labels, 0.0),
    "pearson-invalid": Entry(lambda: Farthest(Pearson(), 0.0, 16.0), invalid_numbers, 1.0),
    "entities": Entry(EntityF1, tags, 1.0),
    "tags": Entry(TagAccuracy, tags, 1.0),
    "answer-em": Entry(ExactMatch, answers, 1.0, best_answer),
    "answer-f1": Entry(AnswerF1, answers, 1.0, best_answer),
    "bleu": Entry(Bleu, translations, 100.0, lambda example: (example[1][0], example[1])),
    "chrf": Entry(Chrf, translations, 100.0, lambda example: (example[1][0], example[1])),
    "perplexity": Entry(Perplexity, likelihoods, 1.0, lambda example: (0.0, *example[1:])),
    "analogies": Entry(lambda: Analogies(VECTORS), analogies, float("nan")),
    "similarity": Entry(lambda: WordSimilarity(VECTORS), pairs, float("nan")),
}
