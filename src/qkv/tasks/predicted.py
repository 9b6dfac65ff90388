"""What several tasks share when they turn answers into predictions, and the trivial answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from qkv.evaluation.prediction import Confidence, Item, Prediction
from qkv.tasks.base import Trivial

NO_LABELS = "(no label)"


def label_prediction(said: str, chance: float, right: str, *, texts: tuple[str, ...], where: str) -> Prediction:
    """Return the prediction of one class; of two mistakes, the more confident one is worse."""
    correct = said == right
    return Prediction(
        said=said,
        gold=right,
        texts=texts,
        where=where,
        answer=said,
        correct=right,
        fault=0.0 if correct else chance,
        items=(Item(said, right),),
        confidences=(Confidence(chance, correct),),
    )


def labels_prediction(said: set[str], right: set[str], *, texts: tuple[str, ...], where: str) -> Prediction:
    """Return the prediction of any number of labels; each wrong or missed label makes it worse."""
    items = [Item(*(label if label in side else None for side in (said, right))) for label in sorted(said | right)]
    return Prediction(
        said=said,
        gold=right,
        texts=texts,
        where=where,
        answer=", ".join(sorted(said)) or NO_LABELS,
        correct=", ".join(sorted(right)) or NO_LABELS,
        fault=float(len(said ^ right)),
        items=tuple(items),
    )


def always(labels: Iterable[str], *, several: bool = False) -> dict[str, Trivial]:
    """Return the answer that is always the most frequent of some labels; the first in the alphabet wins a tie."""
    counts = Counter(labels)
    if not counts:
        return {}
    best = min(counts, key=lambda label: (-counts[label], label))
    return {f"always {best!r}": lambda _: {best} if several else best}
