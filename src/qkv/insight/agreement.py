"""How well two measurements of the same things agree."""

from __future__ import annotations

import math
from collections.abc import Iterable

from qkv.evaluation.correlation import Spearman


def agreement(first: Iterable[float], second: Iterable[float]) -> float | None:
    """Return the Spearman rank correlation, or None if there are fewer than three values or all are equal."""
    found = Spearman()
    for one, other in zip(first, second, strict=True):
        found.add(one, other)
    value = found.result().value if found.count > 2 else math.nan
    return None if math.isnan(value) else value
