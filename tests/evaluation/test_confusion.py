"""Confusion matrices and rates by class, against scikit-learn and seqeval."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import classification_report
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from qkv.evaluation.confusion import NOTHING, Confusion
from qkv.evaluation.entities import entity_items
from qkv.evaluation.prediction import Item

LABELS = st.sampled_from(["a", "b", "c", "d"])


def filled(pairs: list[tuple[str | None, str | None]]) -> Confusion:
    found = Confusion()
    for said, gold in pairs:
        found.add([Item(said, gold)])
    return found


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=60))
def test_classes_agree_with_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    said, gold = zip(*pairs, strict=True)
    matrix = filled(pairs).matrix(10)
    assert matrix is not None
    assert np.array_equal(matrix.counts, confusion_matrix(gold, said, labels=list(matrix.labels)))
    theirs = precision_recall_fscore_support(gold, said, labels=list(matrix.labels), zero_division=0)
    ours = [
        [getattr(one, name) for one in filled(pairs).classes()] for name in ("precision", "recall", "f1", "support")
    ]
    assert np.allclose(ours, theirs)
    supports = [one.support for one in filled(pairs).classes()]
    assert supports == sorted(supports, reverse=True)


def test_entities_agree_with_seqeval() -> None:
    draw = random.Random(0)
    tags = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    gold = [[draw.choice(tags) for _ in range(draw.randint(1, 9))] for _ in range(80)]
    said = [[tag if draw.random() < 0.7 else draw.choice(tags) for tag in row] for row in gold]
    found = Confusion()
    for one, other in zip(said, gold, strict=True):
        found.add(entity_items(one, other))
    theirs = classification_report(gold, said, output_dict=True, zero_division=0)
    for one in found.classes():
        row = theirs[one.label]
        assert (one.precision, one.recall, one.f1, one.support) == pytest.approx(
            (row["precision"], row["recall"], row["f1-score"], row["support"])
        )
    matrix = found.matrix(10)
    assert matrix is not None
    assert matrix.labels[-1] == NOTHING
    assert matrix.counts[-1][-1] == 0  # nothing is never predicted as nothing
    assert sum(matrix.counts[matrix.labels.index("PER")]) == theirs["PER"]["support"]


def test_rare_classes_share_a_row() -> None:
    pairs = [(str(n % 30), str(n % 30)) for n in range(400)]
    matrix = filled([*pairs, ("29", "28")]).matrix(5)
    assert matrix is not None
    assert len(matrix.labels) == 5
    assert matrix.labels[-1] == "(26 other classes)"
    assert sum(map(sum, matrix.counts)) == 401
    assert len(filled(pairs).classes()) == 30  # the rates leave nobody out


def test_without_classes_there_is_no_matrix() -> None:
    assert Confusion().matrix(5) is None
    assert Confusion().classes() == ()
