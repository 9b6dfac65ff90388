"""Counts of correct, predicted and gold items per label, from which F1 and Matthews are computed.

An item is anything predicted: the class of a text, one of its labels, or a span of a sentence.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from qkv.common.errors import UsageError
from qkv.evaluation.bootstrap import Array, Bootstrap

MAX_LABELS = 4096
"""A limit on memory: each label takes 24 kB."""


class LabelCounts:
    """Three sums per label: correct, predicted and gold items. New labels are added as they come."""

    def __init__(self, *, replicas: int = 1000, seed: int = 0) -> None:
        self.sums = Bootstrap(0, replicas=replicas, seed=seed)
        self._place: dict[Hashable, int] = {}
        self._room = 0

    def add(self, counts: Mapping[Hashable, tuple[int, int, int]]) -> None:
        """Add one example: (correct, predicted, gold) for each of its labels."""
        columns: list[int] = []
        row: list[int] = []
        for label, three in counts.items():
            start = 3 * self._at(label)
            columns += (start, start + 1, start + 2)
            row += three
        self.sums.add(row, columns)

    @property
    def labels(self) -> list[Hashable]:
        """The labels seen so far, sorted, so that their order does not depend on the order of the examples."""
        return sorted(self._place, key=str)

    def of(self, label: Hashable) -> Array:
        """Return the three sums of a label. Shape: [3]."""
        start = 3 * self._place[label]
        return self.sums.totals()[start : start + 3]

    def _at(self, label: Hashable) -> int:
        if label not in self._place and len(self._place) == MAX_LABELS:
            raise UsageError(f"more than {MAX_LABELS} different labels, the last {label!r}: is this the label column?")
        place = self._place.setdefault(label, len(self._place))
        if place >= self._room:
            self._room = max(4, 2 * self._room)
            self.sums.widen(3 * self._room)
        return place


def ratio(above: Array, below: Array) -> Array:
    """Divide; the result is nan where the divisor is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(below > 0, above / below, np.nan))


def f1(sums_RC3: Array) -> Array:
    """Return 2 · correct / (predicted + gold), or nan if both are 0. Shape: [..., 3] -> [...]."""
    return ratio(2 * sums_RC3[..., 0], sums_RC3[..., 1] + sums_RC3[..., 2])


def micro_f1(sums_RK: Array) -> Array:
    """Return F1 over the items of all labels. Shape: [R, 3 C] -> [R]."""
    return f1(sums_RK.reshape(len(sums_RK), -1, 3).sum(axis=1))


def macro_f1(sums_RK: Array) -> Array:
    """Return the mean F1 over the labels that are predicted or gold. Shape: [R, 3 C] -> [R]."""
    each_RC = f1(sums_RK.reshape(len(sums_RK), -1, 3))
    return ratio(np.nansum(each_RC, axis=1), np.sum(~np.isnan(each_RC), axis=1).astype(np.float64))


def matthews(sums_RK: Array) -> Array:
    """Return the correlation of two labellings, R_K of Gorodkin (2004). Shape: [R, 3 C] -> [R].

    For two classes this is Matthews' coefficient. It is undefined if either side has only one class.
    """
    correct_RC, predicted_RC, gold_RC = np.moveaxis(sums_RK.reshape(len(sums_RK), -1, 3), -1, 0)
    count = gold_RC.sum(axis=1)
    above = correct_RC.sum(axis=1) * count - (predicted_RC * gold_RC).sum(axis=1)
    spread = [count**2 - (side**2).sum(axis=1) for side in (predicted_RC, gold_RC)]
    return ratio(above, np.sqrt(spread[0]) * np.sqrt(spread[1]))


def rates(three: Array) -> dict[str, float]:
    """Return precision, recall and F1 of three sums; undefined values are 0, as in scikit-learn."""
    correct, predicted, gold = (float(number) for number in three)
    return {
        "precision": correct / predicted if predicted else 0.0,
        "recall": correct / gold if gold else 0.0,
        "f1": 2 * correct / (predicted + gold) if predicted + gold else 0.0,
    }
