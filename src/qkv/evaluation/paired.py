"""Whether one model is better than another: the paired bootstrap (Koehn 2004).

Two models that answer the same examples are right and wrong on mostly the same ones, so their difference varies much
less than either score. Replicas of two metrics draw the same examples (`evaluation/bootstrap.py`), and the differences
of replica and replica give the interval.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from qkv.evaluation.bootstrap import middle
from qkv.evaluation.score import Score, around


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The second score minus the first.

    Attributes:
        name: the name of the metric.
        value: the difference over all examples.
        low: the lower end of its 95 % interval; nan if the metric has no replicas.
        high: the upper end.
        p: how often chance alone gives a difference at least as large, two-sided; nan if the metric has no replicas.
    """

    name: str
    value: float
    low: float
    high: float
    p: float

    def to_dict(self) -> dict[str, float | str | None]:
        """Return the difference for JSON; nan becomes None."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


def paired(first: Score, second: Score) -> Difference | None:
    """Compare the scores of two models on the same examples; None if they do not measure the same."""
    if (first.name, first.count, first.signature) != (second.name, second.count, second.signature):
        return None
    value = second.value - first.value
    none = np.empty(0)
    drawn = none if first.replicas is None or second.replicas is None else second.replicas - first.replicas
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return Difference(name=first.name, value=value, low=math.nan, high=math.nan, p=math.nan)
    low, high = around(value, *middle(drawn))
    # One more of each side than was seen: no number of replicas makes a difference certain.
    tails = [(1 + int(np.sum(side))) / (1 + len(drawn)) for side in (drawn <= 0, drawn >= 0)]
    return Difference(name=first.name, value=value, low=low, high=high, p=min(1.0, 2 * min(tails)))
