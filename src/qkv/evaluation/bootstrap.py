"""Confidence intervals for every metric that is a function of sums: the streaming Poisson bootstrap.

The bootstrap draws n of n examples with replacement, so each example is drawn Binomial(n, 1/n) times. That is nearly
Poisson(1), which does not require knowing n. Each example gets its own weights, and only the weighted sums of each
replica are kept (Chamandy et al. 2012, "Estimating Uncertainty for Massive Data Streams").

    examples -> statistics, K numbers each       [batch, K]
             -> Poisson(1) weights               [batch, R]
    sums_RK += weights.T @ statistics            memory: R x K, independent of the number of examples

The weights of an example depend only on the seed and its index, so two metrics with the same seed resample alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from qkv.common.errors import UsageError
from qkv.evaluation.score import Score, around, need_examples

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""Maps the sums of each replica to its value, or nan if undefined. Shape: [R, K] -> [R]."""

BATCH = 256
PER_STEP = 16
"""One Philox step gives four 64-bit numbers, that is sixteen 16-bit numbers."""


def _poisson_table() -> NDArray[np.uint8]:
    """Return how often an example is drawn, for each 16-bit random number. Shape: [65536].

    A table lookup is several times faster than drawing Poisson numbers, and its mean is accurate to 0.0001.
    """
    mass = [math.exp(-1) / math.factorial(count) for count in range(12)]
    ends = np.rint(np.cumsum(mass) * 2**16)
    return np.searchsorted(ends, np.arange(2**16), side="right").astype(np.uint8)


_TABLE = _poisson_table()


def middle(values: Array) -> tuple[float, float]:
    """Return the 2.5 and 97.5 percentiles of the values that are defined, or nan if none is."""
    values = np.sort(values[~np.isnan(values)])
    if not len(values):
        return math.nan, math.nan
    edge = len(values) // 40
    return float(values[edge]), float(values[-1 - edge])


class Bootstrap:
    """Sums over the examples, and over R resampled copies of them.

    Args:
        columns: K, the number of statistics per example.
        replicas: R, the number of resampled copies.
        seed: the seed of the resampling.
    """

    def __init__(self, columns: int, *, replicas: int = 1000, seed: int = 0) -> None:
        if replicas < 1 or seed < 0:
            raise UsageError(f"replicas must be at least 1 and the seed at least 0, not {replicas} and {seed}")
        self.count = 0
        self._replicas, self._seed = replicas, seed
        self._steps = -(-replicas // PER_STEP)
        self._waiting = 0
        self._rows = np.zeros((BATCH, columns))
        self._totals = np.zeros(columns)
        self._sums_RK = np.zeros((replicas, columns))

    @property
    def signature(self) -> str:
        """How the interval was computed."""
        return f"ci:poisson-bootstrap-{self._replicas}-seed-{self._seed}"

    def add(self, row: Sequence[float], columns: Sequence[int] | None = None) -> None:
        """Add the statistics of one example: all K, or only some columns if the others are zero."""
        if self._waiting == BATCH:
            self._flush()
        if columns is None:
            self._rows[self._waiting] = row
        else:
            self._rows[self._waiting, columns] = row
        self.count += 1
        self._waiting += 1

    def widen(self, columns: int) -> None:
        """Add columns, with zeros for the examples so far."""
        more = columns - len(self._totals)
        self._rows = np.pad(self._rows, ((0, 0), (0, more)))
        self._totals = np.pad(self._totals, (0, more))
        self._sums_RK = np.pad(self._sums_RK, ((0, 0), (0, more)))

    def totals(self) -> Array:
        """Return the sums over all examples. Shape: [K]."""
        self._flush()
        return self._totals.copy()

    def interval(self, statistic: Statistic) -> tuple[float, float]:
        """Return the 2.5 and 97.5 percentiles over the replicas, or nan if all replicas are undefined."""
        return middle(self.replicas(statistic))

    def replicas(self, statistic: Statistic) -> Array:
        """Return the value of each replica, nan where it is undefined. Shape: [R]."""
        self._flush()
        return statistic(self._sums_RK)

    def score(
        self,
        name: str,
        statistic: Statistic,
        *,
        signature: str = "",
        parts: Mapping[str, float] | None = None,
        undefined: float = 0.0,
    ) -> Score:
        """Return the value over all examples with its interval.

        Args:
            name: the name of the metric.
            statistic: computes the value from the sums.
            signature: how the value was computed. How the interval was computed is appended.
            parts: additional numbers.
            undefined: the value if the statistic is nan. Undefined replicas are ignored.
        """
        need_examples(name, self.count)
        value = float(statistic(self.totals()[None])[0])
        low, high = self.interval(statistic)
        if math.isnan(value):
            value = undefined
        if math.isnan(value):
            low = high = value
        low, high = around(value, low, high)
        full = "|".join(filter(None, [signature, self.signature]))
        return Score(
            name=name,
            value=value,
            low=low,
            high=high,
            count=self.count,
            signature=full,
            parts=parts or {},
            replicas=self.replicas(statistic),
        )

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows, first = self._rows[: self._waiting], self.count - self._waiting
        good = np.isfinite(rows).all(axis=1)
        if not good.all():
            raise UsageError(f"example {first + int(np.argmin(good))} contains a number that is not finite")
        self._totals += rows.sum(axis=0)
        self._sums_RK += self._weights(first, len(rows)).T @ rows
        rows[:] = 0
        self._waiting = 0

    def _weights(self, first: int, count: int) -> Array:
        """Return the weights of some examples. Shape: [count, R]."""
        # Philox is counter-based (Salmon et al. 2011), so the index of an example is its position in the stream.
        source = np.random.Philox(key=self._seed, counter=first * self._steps)
        bits = source.random_raw(count * self._steps * PER_STEP // 4).view(np.uint16)
        return _TABLE.take(bits).reshape(count, -1)[:, : self._replicas].astype(np.float64)
