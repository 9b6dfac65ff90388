"""The confusion matrix, and precision, recall and support by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from qkv.evaluation.counts import rates
from qkv.evaluation.prediction import Item

NOTHING = "(none)"  # the row of invented entities or labels, and the column of missed ones


@dataclass(frozen=True, kw_only=True)
class ClassRates:
    """How well a class is recognised.

    Attributes:
        label: the name of the class.
        precision: the share of its predictions that are correct; 0 if it is never predicted.
        recall: the share of its examples that are found; 0 if it has none.
        f1: their harmonic mean.
        support: the number of its examples.
        predicted: how often it is predicted.
    """

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A confusion matrix.

    Attributes:
        labels: the names of the classes.
        counts: counts[i][j] is how often the class i is predicted as j.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


class Confusion:
    """Counts pairs of correct and predicted classes. Memory grows with the number of different pairs only."""

    def __init__(self) -> None:
        self._pairs: Counter[Item] = Counter()

    def add(self, items: Iterable[Item]) -> None:
        """Add the classes of one example."""
        self._pairs.update(items)

    def classes(self) -> tuple[ClassRates, ...]:
        """Return precision, recall and support of each class, the most frequent first."""
        support, predicted = self._totals()
        found = []
        for label in self._labels():
            three = np.array([self._pairs[Item(label, label)], predicted[label], support[label]], dtype=np.float64)
            found.append(ClassRates(label=label, support=support[label], predicted=predicted[label], **rates(three)))
        return tuple(found)

    def matrix(self, limit: int) -> Matrix | None:
        """Return the matrix of at most `limit` classes; the less frequent ones share one row. None without classes."""
        labels = self._labels()
        if not labels:
            return None
        kept = labels if len(labels) <= limit else labels[: limit - 1]
        other = f"({len(labels) - len(kept)} other classes)"
        place = {label: label if number < len(kept) else other for number, label in enumerate(labels)}
        cells: Counter[tuple[str, str]] = Counter()
        for item, count in self._pairs.items():
            gold, said = (NOTHING if label is None else place[label] for label in (item.gold, item.said))
            cells[gold, said] += count
        named = list(dict.fromkeys(place.values()))
        named += [NOTHING] if any(NOTHING in pair for pair in cells) else []
        counts = tuple(tuple(cells[gold, said] for said in named) for gold in named)
        return Matrix(labels=tuple(named), counts=counts)

    def _totals(self) -> tuple[Counter[str | None], Counter[str | None]]:
        support: Counter[str | None] = Counter()
        predicted: Counter[str | None] = Counter()
        for item, count in self._pairs.items():
            support[item.gold] += count
            predicted[item.said] += count
        return support, predicted

    def _labels(self) -> list[str]:
        """Return the classes by support, so that the order does not depend on the order of the examples."""
        support, predicted = self._totals()
        names = {label for label in (*support, *predicted) if label is not None}
        return sorted(names, key=lambda label: (-support[label], label))
