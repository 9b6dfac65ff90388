"""Metrics for single-label and multi-label classification: accuracy, F1, Matthews correlation."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from qkv.common.errors import UsageError, unknown
from qkv.evaluation import counts
from qkv.evaluation.counts import LabelCounts
from qkv.evaluation.proportion import Proportion
from qkv.evaluation.score import Score

AVERAGES = {"micro": counts.micro_f1, "macro": counts.macro_f1}


class Accuracy:
    """The share of examples whose prediction equals the gold label.

    For sets of labels this is exact match (subset accuracy).
    """

    def __init__(self, *, name: str = "accuracy") -> None:
        self._name = name
        self._hits = Proportion()

    def add(self, prediction: object, gold: object) -> None:
        """Add one example."""
        self._hits.add(bool(prediction == gold))

    def result(self) -> Score:
        """Return the accuracy with a Wilson interval."""
        return self._hits.score(self._name)


class TagAccuracy(Accuracy):
    """The share of words whose predicted tag is the correct one."""

    def add(self, prediction: Sequence[str], gold: Sequence[str]) -> None:  # type: ignore[override]
        """Add the tags of one sentence."""
        for one, other in zip(prediction, gold, strict=True):
            super().add(one, other)


class BinaryF1:
    """F1 of one label against all others (MRPC and QQP in GLUE)."""

    def __init__(self, *, positive: Hashable = 1, replicas: int = 1000, seed: int = 0) -> None:
        self._positive = positive
        self._counts = LabelCounts(replicas=replicas, seed=seed)

    def add(self, prediction: Hashable, gold: Hashable) -> None:
        """Add one example."""
        predicted, wanted = prediction == self._positive, gold == self._positive
        self._counts.add({self._positive: (predicted and wanted, predicted, wanted)})

    def result(self) -> Score:
        """Return F1, with precision and recall as parts. It is 0 if the label is neither predicted nor gold."""
        parts = counts.rates(self._counts.of(self._positive)) if self._counts.labels else {}
        parts.pop("f1", None)
        signature = f"average:binary|positive:{self._positive}"
        return self._counts.sums.score("f1", counts.micro_f1, signature=signature, parts=parts)


class F1:
    """F1 for classification into two or more classes.

    Args:
        average: "macro", the mean over the labels seen, or "micro", over all examples.
        replicas: the number of bootstrap replicas.
        seed: the seed of the bootstrap.
    """

    def __init__(self, *, average: str = "macro", replicas: int = 1000, seed: int = 0) -> None:
        if average not in AVERAGES:
            raise unknown("average", average, AVERAGES)
        self._average = average
        self._counts = LabelCounts(replicas=replicas, seed=seed)

    def add(self, prediction: Hashable, gold: Hashable) -> None:
        """Add one example. The prediction None is no label at all: it misses the gold one and counts for no other."""
        self._counts.add(_against([] if prediction is None else [prediction], [gold]))

    def result(self) -> Score:
        """Return F1, with the F1 of each label as parts."""
        return _f1_score("f1", self._counts, self._average, "task:single-label")


class MultiLabelF1:
    """F1 for sets of labels. Takes the same arguments as `F1`."""

    def __init__(self, *, average: str = "micro", replicas: int = 1000, seed: int = 0) -> None:
        if average not in AVERAGES:
            raise unknown("average", average, AVERAGES)
        self._average = average
        self._counts = LabelCounts(replicas=replicas, seed=seed)

    def add(self, prediction: Collection[Hashable], gold: Collection[Hashable]) -> None:
        """Add one example; either set may be empty."""
        if isinstance(prediction, str) or isinstance(gold, str):
            raise UsageError(f"labels must be given as a collection, not as a string: {prediction!r}, {gold!r}")
        self._counts.add(_against(set(prediction), set(gold)))

    def result(self) -> Score:
        """Return F1, with the F1 of each label as parts."""
        return _f1_score("f1", self._counts, self._average, "task:multi-label")


class Matthews:
    """Matthews correlation coefficient for two or more classes (CoLA in GLUE). It is 0 if undefined."""

    def __init__(self, *, replicas: int = 1000, seed: int = 0) -> None:
        self._counts = LabelCounts(replicas=replicas, seed=seed)

    def add(self, prediction: Hashable, gold: Hashable) -> None:
        """Add one example."""
        self._counts.add(_against([prediction], [gold]))

    def result(self) -> Score:
        """Return the coefficient, from -1 to 1."""
        return self._counts.sums.score("matthews", counts.matthews)


def _against(prediction: Collection[Hashable], gold: Collection[Hashable]) -> dict[Hashable, tuple[int, int, int]]:
    return {
        label: (label in prediction and label in gold, label in prediction, label in gold)
        for label in (*prediction, *gold)
    }


def _f1_score(name: str, labelled: LabelCounts, average: str, signature: str) -> Score:
    parts = {f"f1[{label}]": counts.rates(labelled.of(label))["f1"] for label in labelled.labels}
    return labelled.sums.score(name, AVERAGES[average], signature=f"average:{average}|{signature}", parts=parts)
