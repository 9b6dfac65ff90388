"""A model's answer to one example: what the metrics compare, and what a report shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Item(NamedTuple):
    """A class that was predicted, that is correct, or both; None where there is none (a missed or invented entity)."""

    said: str | None
    gold: str | None


class Confidence(NamedTuple):
    """The probability that a model gave to its answer, and whether the answer is correct."""

    chance: float
    correct: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A model's answer to one example.

    Attributes:
        said: the answer, as the metrics take it.
        gold: the correct answer, as the metrics take it.
        texts: what the model read: a text, a pair, or a question and its context.
        where: the place of the example, "file:line".
        answer: the answer in words.
        correct: the correct answer in words.
        fault: how wrong the answer is; 0 if it is correct. The worst mistakes have the highest values.
        items: the classes in the answer, for the confusion matrix: one for a class, several for tags or labels.
        confidences: the probabilities in the answer, for calibration.
    """

    said: Any
    gold: Any
    texts: tuple[str, ...]
    where: str = ""
    answer: str
    correct: str
    fault: float
    items: tuple[Item, ...] = ()
    confidences: tuple[Confidence, ...] = ()

    @property
    def length(self) -> int:
        """The number of characters that the model read."""
        return sum(map(len, self.texts))
