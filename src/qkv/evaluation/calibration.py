"""Calibration: are answers with probability 0.8 correct in 80 % of the cases? (Guo et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qkv.evaluation.prediction import Confidence

BINS = 10


@dataclass(frozen=True, kw_only=True)
class Bin:
    """The answers whose probability lies in one interval.

    Attributes:
        low: the lower end of the interval, which belongs to it.
        high: the upper end, which belongs to the next bin.
        count: the number of answers.
        chance: their mean probability.
        accuracy: the share that is correct.
    """

    low: float
    high: float
    count: int
    chance: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """How probabilities compare with accuracy.

    Attributes:
        error: the expected calibration error: the mean gap between probability and accuracy, weighted by answers.
        chance: the mean probability of all answers.
        accuracy: the share of all answers that is correct.
        bins: the bins with at least one answer.
    """

    error: float
    chance: float
    accuracy: float
    bins: tuple[Bin, ...]


class Calibration:
    """Sums probabilities and correct answers in bins of equal width."""

    def __init__(self) -> None:
        self._sums = np.zeros((BINS, 3))  # answers, sum of probabilities, correct answers

    def add(self, answer: Confidence) -> None:
        """Add one answer."""
        place = min(max(int(answer.chance * BINS), 0), BINS - 1)
        self._sums[place] += (1, answer.chance, answer.correct)

    def result(self) -> Reliability | None:
        """Return the bins and the expected calibration error, or None without answers."""
        total, chances, hits = self._sums.sum(axis=0).tolist()
        if not total:
            return None
        bins = tuple(
            Bin(low=i / BINS, high=(i + 1) / BINS, count=int(n), chance=sure / n, accuracy=right / n)
            for i, (n, sure, right) in enumerate(self._sums.tolist())
            if n
        )
        error = sum(one.count * abs(one.chance - one.accuracy) for one in bins) / total
        return Reliability(error=error, chance=chances / total, accuracy=hits / total, bins=bins)
