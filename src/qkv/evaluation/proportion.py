"""A proportion with a Wilson interval, which also holds at 0 and 1, where the bootstrap has no variance."""

from __future__ import annotations

import math
from collections.abc import Mapping

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

    def add(self, hit: bool) -> None:
        """Count one example."""
        self.hits += bool(hit)
        self.count += 1

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
            name=name, value=self.value, low=low, high=high, count=self.count, signature=full, parts=parts or {}
        )
