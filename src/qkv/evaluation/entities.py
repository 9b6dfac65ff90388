"""Named entities: F1 of whole spans, counted as in conlleval (Tjong Kim Sang and De Meulder 2003)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from qkv.common.errors import UsageError
from qkv.evaluation import counts
from qkv.evaluation.counts import LabelCounts
from qkv.evaluation.prediction import Item
from qkv.evaluation.score import Score


class Span(NamedTuple):
    """A labelled span of tokens, from `start` to `end - 1`."""

    start: int
    end: int
    label: str


def spans(tags: Sequence[str]) -> list[Span]:
    """Read spans from tags `B-X`, `I-X` and `O`.

    A span begins at `B-X`, or at an `I-X` after `O` or after another label. conlleval tolerates the missing `B` in the
    same way, so IOB1 files are read correctly too.

        B-PER I-PER O I-LOC I-ORG B-ORG  ->  PER[0:2] LOC[3:4] ORG[4:5] ORG[5:6]
    """
    found: list[Span] = []
    start, open_label = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, label = _split(tag)
        if open_label and (prefix != "I" or label != open_label):
            found.append(Span(start, place, open_label))
            open_label = ""
        if label and not open_label:
            start, open_label = place, label
    return found


def _split(tag: str) -> tuple[str, str]:
    if tag == "O":
        return "O", ""
    prefix, _, label = tag.partition("-")
    if prefix not in ("B", "I") or not label:
        raise UsageError(f"tag {tag!r} is neither O nor B-LABEL nor I-LABEL")
    return prefix, label


def entity_items(prediction: Sequence[str], gold: Sequence[str]) -> tuple[Item, ...]:
    """Pair predicted and gold spans with the same ends; the others are missed or invented."""
    found, right = ({(span.start, span.end): span.label for span in spans(tags)} for tags in (prediction, gold))
    return tuple(Item(found.get(ends), right.get(ends)) for ends in sorted(found.keys() | right.keys()))


class EntityF1:
    """Micro F1 of spans; a span is correct only if both ends and the label match."""

    def __init__(self, *, replicas: int = 1000, seed: int = 0) -> None:
        self._counts = LabelCounts(replicas=replicas, seed=seed)

    def add(self, prediction: Sequence[str], gold: Sequence[str]) -> None:
        """Add the tags of one sentence."""
        if len(prediction) != len(gold):
            raise UsageError(f"a sentence has {len(gold)} gold tags but {len(prediction)} predicted ones")
        found, right = set(spans(prediction)), set(spans(gold))
        correct, predicted, wanted = (Counter(span.label for span in some) for some in (found & right, found, right))
        self._counts.add({label: (correct[label], predicted[label], wanted[label]) for label in predicted | wanted})

    def result(self) -> Score:
        """Return micro F1, with precision, recall and the scores of each label as parts. It is 0 without any span."""
        totals = self._counts.sums.totals().reshape(-1, 3).sum(axis=0)
        parts = {name: value for name, value in counts.rates(totals).items() if name != "f1"}
        for label in self._counts.labels:
            parts |= {f"{name}[{label}]": value for name, value in counts.rates(self._counts.of(label)).items()}
        return self._counts.sums.score(
            "entity-f1", counts.micro_f1, signature="average:micro|match:conlleval", parts=parts
        )
