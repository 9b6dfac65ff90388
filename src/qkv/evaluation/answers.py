"""Question answering: SQuAD exact match and F1 (Rajpurkar et al. 2016), with the unanswerable questions of SQuAD 2.0.

An unanswerable question has no gold answers; the correct prediction is the empty string.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np

from qkv.common.errors import UsageError
from qkv.evaluation.bootstrap import Array, Bootstrap
from qkv.evaluation.counts import ratio
from qkv.evaluation.proportion import Proportion
from qkv.evaluation.score import Score

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(answer: str) -> str:
    """Convert to lower case and remove ASCII punctuation, English articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact(prediction: str, gold: str) -> bool:
    """Return whether two answers are equal after normalisation."""
    return normalise(prediction) == normalise(gold)


def overlap(prediction: str, gold: str) -> float:
    """Return the bag-of-words F1 of two answers: 1 if both are empty, 0 if only one is."""
    predicted, wanted = normalise(prediction).split(), normalise(gold).split()
    if not predicted or not wanted:
        return float(predicted == wanted)
    return 2 * (Counter(predicted) & Counter(wanted)).total() / (len(predicted) + len(wanted))


def _wanted(golds: Sequence[str]) -> list[str]:
    """Return the gold answers that are not empty, or one empty answer if there are none."""
    if isinstance(golds, str):
        raise UsageError(f"gold answers must be a list, not a string: {golds!r}")
    return [gold for gold in golds if normalise(gold)] or [""]


class ExactMatch:
    """The share of questions whose predicted answer equals one of the gold answers."""

    def __init__(self) -> None:
        self._groups = {"answerable": Proportion(), "unanswerable": Proportion()}
        self._all = Proportion()

    def add(self, prediction: str, golds: Sequence[str]) -> None:
        """Add one question: compare the prediction with each gold answer and count the best match."""
        wanted = _wanted(golds)
        hit = any(exact(prediction, gold) for gold in wanted)
        self._all.add(hit)
        self._groups["answerable" if wanted[0] else "unanswerable"].add(hit)

    def result(self) -> Score:
        """Return the share. If only some questions are answerable, the parts hold the share of each kind."""
        parts = {name: group.value for name, group in self._groups.items()} if _mixed(self._groups) else {}
        return self._all.score("exact-match", signature="normalise:squad", parts=parts)


def _mixed(groups: dict[str, Proportion]) -> bool:
    return all(group.count for group in groups.values())


class AnswerF1:
    """The mean bag-of-words F1 over questions, each against its best gold answer."""

    def __init__(self, *, replicas: int = 1000, seed: int = 0) -> None:
        self._sums = Bootstrap(4, replicas=replicas, seed=seed)

    def add(self, prediction: str, golds: Sequence[str]) -> None:
        """Add one question: compare the prediction with each gold answer and count the best match."""
        place = (0, 1) if _wanted(golds)[0] else (2, 3)
        self._sums.add((1, answer_f1(prediction, golds)), place)

    def result(self) -> Score:
        """Return the mean. If only some questions are answerable, the parts hold the mean of each kind."""
        totals = self._sums.totals()
        both = bool(totals[0] and totals[2])
        parts = {"answerable": totals[1] / totals[0], "unanswerable": totals[3] / totals[2]} if both else {}
        parts = {name: float(value) for name, value in parts.items()}
        return self._sums.score("answer-f1", _mean, signature="normalise:squad", parts=parts)


def best_threshold(answers: Iterable[tuple[str, float, Sequence[str]]]) -> float:
    """Choose the no-answer threshold that maximises F1 over all questions (Rajpurkar et al. 2018).

    The model gives no answer if its doubt is above the threshold. The threshold lies halfway between two doubts.

    Args:
        answers: the prediction for each question, the doubt about it, and the gold answers. An infinite doubt belongs
            to a prediction that is empty anyway.
    """
    rows = sorted(
        (doubt, answer_f1(said, golds) - answer_f1("", golds)) for said, doubt, golds in answers if doubt < math.inf
    )
    if not rows:
        return 0.0
    doubts = [doubt for doubt, _ in rows]
    gains = list(accumulate((gain for _, gain in rows), initial=0.0))  # of answering the least doubtful k
    count = gains.index(max(gains))  # never between equal doubts, which are sorted by gain
    edges = [doubts[0] - 1, *doubts, doubts[-1] + 1]
    return (edges[count] + edges[count + 1]) / 2


def answer_f1(prediction: str, golds: Sequence[str]) -> float:
    """Return the F1 of a prediction with the gold answer that it matches best."""
    return max(overlap(prediction, gold) for gold in _wanted(golds))


def _mean(sums_RK: Array) -> Array:
    counts, values = np.moveaxis(sums_RK.reshape(-1, 2, 2).sum(axis=1), -1, 0)
    return ratio(values, counts)
