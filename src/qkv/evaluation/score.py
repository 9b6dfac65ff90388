"""The result of a metric: a value, its 95 % interval and a signature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from qkv.common.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Score:
    """The result of a metric.

    Attributes:
        name: the name of the metric.
        value: the value over all examples; nan if undefined (a correlation with a constant).
        low: the lower end of the 95 % interval, never above `value`.
        high: the upper end of the 95 % interval, never below `value`.
        count: the number of examples added.
        signature: how the value was computed, as `key:value|key:value`. Compare only scores with the same signature.
        parts: additional numbers from the same examples, by name.
        replicas: the value of each bootstrap replica, from which `paired` compares two models; None if there are none.
    """

    name: str
    value: float
    low: float
    high: float
    count: int
    signature: str
    parts: Mapping[str, float] = field(default_factory=dict)
    replicas: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)


class Metric(Protocol):
    """A metric: call `add(...)` for each example, then `result()`.

    The arguments of `add` differ between metrics, so `add` is not part of the protocol.
    """

    def result(self) -> Score:
        """Return the score of the examples so far; you can add more afterwards."""
        ...


def need_examples(name: str, count: int) -> None:
    """Raise an error if there are no examples."""
    if count == 0:
        raise UsageError(f"{name} of 0 examples is undefined: add at least one example")


def around(value: float, low: float, high: float) -> tuple[float, float]:
    """Widen an interval until it contains the value.

    The percentiles of a biased statistic (BLEU of a few sentences) can both lie on one side of it.
    """
    if math.isnan(low) or math.isnan(high):
        return value, value
    return min(low, value), max(high, value)
