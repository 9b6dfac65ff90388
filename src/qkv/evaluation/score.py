"""What a metric says: a value, its 95 % interval and a signature to compare it by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from qkv.common.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Score:
    """The result of a metric.

    Attributes:
        name: the metric.
        value: on all examples; nan where it is undefined (a correlation with a constant).
        low: lower end of the 95 % interval, never above `value`.
        high: upper end of the 95 % interval, never below `value`.
        count: examples that were added.
        signature: what was computed and how, as `key:value|key:value`. Compare only scores of one signature.
        parts: further numbers from the same examples, by name.
    """

    name: str
    value: float
    low: float
    high: float
    count: int
    signature: str
    parts: Mapping[str, float] = field(default_factory=dict)


class Metric(Protocol):
    """The law of this room: `add(...)` each example, then ask for the `result()`.

    What `add` takes differs from metric to metric, so it is not part of the type.
    """

    def result(self) -> Score:
        """Return the score of the examples so far; more may be added afterwards."""
        ...


def need_examples(name: str, count: int) -> None:
    """Stop where a result is asked of nothing."""
    if count == 0:
        raise UsageError(f"{name} of 0 examples is undefined: add at least one example")


def around(value: float, low: float, high: float) -> tuple[float, float]:
    """Widen an interval until it holds the value.

    The percentiles of a biased statistic (BLEU of few sentences) can lie on one side of it.
    """
    if math.isnan(low) or math.isnan(high):
        return value, value
    return min(low, value), max(high, value)
