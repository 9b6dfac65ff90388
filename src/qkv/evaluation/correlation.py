"""Metrics for regression: Pearson, Spearman, mean squared error."""

from __future__ import annotations

import math
from array import array

import numpy as np
from numpy.typing import NDArray

from qkv.common.errors import UsageError
from qkv.evaluation.bootstrap import Array, Bootstrap
from qkv.evaluation.counts import ratio
from qkv.evaluation.proportion import Z
from qkv.evaluation.score import Score, around, need_examples


class Pearson:
    """Pearson correlation of predictions with gold values. It is nan if either side is constant."""

    def __init__(self, *, replicas: int = 1000, seed: int = 0) -> None:
        self._sums = Bootstrap(6, replicas=replicas, seed=seed)
        self._origin: tuple[float, float] | None = None

    def add(self, prediction: float, gold: float) -> None:
        """Add one pair."""
        if self._origin is None:
            self._origin = prediction, gold
        # Subtracting the first pair keeps the squares small; far from 0, their differences would lose all precision.
        x, y = prediction - self._origin[0], gold - self._origin[1]
        self._sums.add((1, x, y, x * x, y * y, x * y))

    def result(self) -> Score:
        """Return the coefficient, from -1 to 1."""
        return self._sums.score("pearson", _pearson, undefined=math.nan)


def _pearson(sums_RK: Array) -> Array:
    n, x, y, xx, yy, xy = sums_RK.T
    spread = np.sqrt(_spread(n, x, xx)) * np.sqrt(_spread(n, y, yy))
    return np.clip(ratio(n * xy - x * y, spread), -1, 1)


def _spread(n: Array, x: Array, xx: Array) -> Array:
    """Return n² times the variance, with rounding errors set to 0 so that a constant replica stays undefined."""
    spread = n * xx - x * x
    return np.where(spread > 1e-13 * n * xx, spread, 0.0)


class MeanSquaredError:
    """The mean squared error."""

    def __init__(self, *, replicas: int = 1000, seed: int = 0) -> None:
        self._sums = Bootstrap(3, replicas=replicas, seed=seed)

    def add(self, prediction: float, gold: float) -> None:
        """Add one pair."""
        error = prediction - gold
        self._sums.add((1, error * error, abs(error)))

    def result(self) -> Score:
        """Return the mean squared error, with its root and the mean absolute error as parts."""
        need_examples("mse", self._sums.count)
        count, squares, absolutes = (float(total) for total in self._sums.totals())
        parts = {"rmse": math.sqrt(squares / count), "mae": absolutes / count}
        return self._sums.score("mse", lambda sums_RK: ratio(sums_RK[:, 1], sums_RK[:, 0]), parts=parts)


class Spearman:
    """Spearman rank correlation. It is nan if either side is constant.

    Ranks cannot be computed from sums, so up to `cap` pairs are kept as float32, 8 bytes per pair. Beyond that, a
    uniform sample of `cap` pairs is kept (algorithm R, Vitter 1985), and the signature says so.

    Args:
        cap: the maximum number of pairs to keep.
        seed: the seed of the sample.
    """

    def __init__(self, *, cap: int = 1_000_000, seed: int = 0) -> None:
        if cap < 1:
            raise UsageError(f"cap must be at least 1, not {cap}")
        self.count = 0
        self._cap = cap
        self._draw = np.random.default_rng(seed)
        self._x, self._y = array("f"), array("f")

    def add(self, prediction: float, gold: float) -> None:
        """Add one pair."""
        if not (math.isfinite(prediction) and math.isfinite(gold)):
            raise UsageError(f"example {self.count} contains a number that is not finite: {prediction}, {gold}")
        self.count += 1
        if self.count <= self._cap:
            self._x.append(prediction)
            self._y.append(gold)
        elif (place := int(self._draw.integers(self.count))) < self._cap:
            self._x[place], self._y[place] = prediction, gold

    def result(self) -> Score:
        """Return the coefficient, from -1 to 1, with an interval from Fisher's transformation."""
        need_examples("spearman", self.count)
        x, y = _ranks(self._x), _ranks(self._y)
        value = float(_pearson(_moments(x, y))[0])
        low, high = fisher(value, len(x))
        sampled = "yes" if self.count > self._cap else "no"
        signature = f"ties:average|cap:{self._cap}|sampled:{sampled}|ci:fisher-bonett-wright"
        return Score(name="spearman", value=value, low=low, high=high, count=self.count, signature=signature)


def _moments(x: Array, y: Array) -> Array:
    x, y = x - x.mean(), y - y.mean()
    return np.array([[len(x), 0.0, 0.0, x @ x, y @ y, x @ y]])


def _ranks(values: array[float]) -> Array:
    """Return ranks from 1; equal values get their mean rank."""
    numbers: NDArray[np.float32] = np.frombuffer(values, dtype=np.float32)
    _, place, times = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return (last - (times - 1) / 2)[place]


def fisher(rho: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a rank correlation.

    arctanh(rho) is nearly normal with variance (1 + rho² / 2) / (n - 3) (Bonett and Wright 2000).
    """
    if math.isnan(rho) or count <= 3:
        return (rho, rho) if math.isnan(rho) else (-1.0, 1.0)
    half = Z * math.sqrt((1 + rho * rho / 2) / (count - 3))
    with np.errstate(divide="ignore"):
        middle = np.arctanh(rho)
    return around(rho, float(np.tanh(middle - half)), float(np.tanh(middle + half)))
