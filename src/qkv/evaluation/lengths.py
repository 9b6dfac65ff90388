"""Scores by text length: one metric for each range of lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qkv.evaluation.score import Score

SHORTEST = 4  # 2^4: texts of up to 16 characters share the first range


@dataclass(frozen=True, kw_only=True)
class LengthScore:
    """The score of the texts with `low` to `high` characters."""

    low: int
    high: int
    score: Score


class ByLength:
    """Scores texts of 1 to 16, 17 to 32, 33 to 64 characters and so on, each range by itself.

    Args:
        metric: creates the metric of a range.
    """

    def __init__(self, metric: Callable[[], Any]) -> None:
        self._metric = metric
        self._ranges: dict[int, Any] = {}

    def add(self, length: int, said: Any, gold: Any) -> None:
        """Add one example with the length of its text."""
        power = max(SHORTEST, (max(length, 1) - 1).bit_length())
        if power not in self._ranges:
            self._ranges[power] = self._metric()
        self._ranges[power].add(said, gold)

    def result(self) -> tuple[LengthScore, ...]:
        """Return the score of each range that has examples, the shortest first."""
        return tuple(
            LengthScore(low=1 if power == SHORTEST else 2 ** (power - 1) + 1, high=2**power, score=metric.result())
            for power, metric in sorted(self._ranges.items())
        )
