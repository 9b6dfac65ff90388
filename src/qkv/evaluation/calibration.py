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
        bins: the bins with at least one answer.
    """

    error: float
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
        total = self._sums[:, 0].sum()
        if not total:
            return None
        bins = tuple(
            Bin(low=i / BINS, high=(i + 1) / BINS, count=int(n), chance=chances / n, accuracy=hits / n)
            for i, (n, chances, hits) in enumerate(self._sums.tolist())
            if n
        )
        return Reliability(error=sum(b.count * abs(b.chance - b.accuracy) for b in bins) / float(total), bins=bins)
