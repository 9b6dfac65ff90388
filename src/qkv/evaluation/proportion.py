"""A proportion with a Wilson interval, which also holds at 0 and 1, where the bootstrap has no variance.

The bootstrap is for comparing two models on the same examples (`evaluation/paired.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from qkv.evaluation.bootstrap import Bootstrap
from qkv.evaluation.score import Score, around, need_examples

Z = 1.959963984540054
"""The 97.5 percentile of the standard normal distribution."""


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a proportion (Wilson 1927)."""
    share, z2 = hits / count, Z * Z / count
    middle = (share + z2 / 2) / (1 + z2)
    half = Z / (1 + z2) * math.sqrt(share * (1 - share) / count + z2 / (4 * count))
    return around(share, max(middle - half, 0.0), min(middle + half, 1.0))


class Proportion:
    """Counts hits."""

    def __init__(self) -> None:
        self.hits = 0
        self.count = 0
        self._sums = Bootstrap(2)

    def add(self, hit: bool) -> None:
        """Count one example."""
        self.hits += bool(hit)
        self.count += 1
        self._sums.add((bool(hit), 1))

    @property
    def value(self) -> float:
        """The share of hits, or nan without examples."""
        return self.hits / self.count if self.count else math.nan

    def score(self, name: str, *, signature: str = "", parts: Mapping[str, float] | None = None) -> Score:
        """Return the share of hits with a Wilson interval."""
        need_examples(name, self.count)
        low, high = wilson(self.hits, self.count)
        full = "|".join(filter(None, [signature, "ci:wilson"]))
        return Score(
            name=name,
            value=self.value,
            low=low,
            high=high,
            count=self.count,
            signature=full,
            parts=parts or {},
            replicas=self._sums.replicas(lambda sums_RK: sums_RK[:, 0] / np.maximum(sums_RK[:, 1], 1)),
        )
