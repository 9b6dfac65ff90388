"""Answers in words that are no answer: a label that does not exist, or a number that is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from qkv.evaluation.proportion import Proportion
from qkv.evaluation.score import Score

INVALID = "invalid"


class Invalid:
    """The share of predictions that are None: a model said something, and it is no answer."""

    def __init__(self) -> None:
        self._share = Proportion()

    def add(self, prediction: object, gold: object) -> None:
        """Add one example."""
        del gold
        self._share.add(prediction is None)

    def result(self) -> Score:
        """Return the share with a Wilson interval."""
        return self._share.score(INVALID)


class OfNumbers(Protocol):
    """A metric of numbers."""

    def add(self, prediction: float, gold: float, /) -> None:
        """Add one example."""
        ...

    def result(self) -> Score:
        """Return the score of the examples so far."""
        ...


class Farthest:
    """A metric of numbers where a prediction may be None.

    It then counts as the smallest or the largest number there is, whichever is farther from the correct one.
    """

    def __init__(self, metric: OfNumbers, low: float, high: float) -> None:
        self._metric, self._low, self._high = metric, low, high

    def add(self, prediction: Any, gold: float) -> None:
        """Add one example."""
        if prediction is None:
            prediction = self._low if gold - self._low > self._high - gold else self._high
        self._metric.add(prediction, gold)

    def result(self) -> Score:
        """Return the score; the signature says how predictions that are no number counted."""
        score = self._metric.result()
        return replace(score, signature=f"{INVALID}:farthest-of-{self._low:g}-{self._high:g}|{score.signature}")
