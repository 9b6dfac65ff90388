"""Spans and their F1 against a port of conlleval's rules, and against seqeval where it is installed."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.evaluation.entities import EntityF1, Span, spans

TAG = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
SENTENCES = st.lists(st.lists(st.tuples(TAG, TAG), min_size=1, max_size=10), min_size=1, max_size=8)


def starts(before, tag):
    """conlleval.pl, sub startOfChunk, for the tags B, I and O."""
    (old, old_type), (new, new_type) = (t.partition("-")[::2] for t in (before, tag))
    pairs = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I")}
    return (old, new) in pairs or (new != "O" and old_type != new_type)


def ends(before, tag):
    """conlleval.pl, sub endOfChunk, for the tags B, I and O."""
    (old, old_type), (new, new_type) = (t.partition("-")[::2] for t in (before, tag))
    pairs = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O")}
    return (old, new) in pairs or (old != "O" and old_type != new_type)


def conlleval(tags):
    found, start = set(), None
    row = ["O", *tags, "O"]
    for place in range(1, len(row)):
        if start is not None and ends(row[place - 1], row[place]):
            found.add((start, place - 1, row[place - 1][2:]))
            start = None
        if starts(row[place - 1], row[place]):
            start = place - 1
    return found


def run(sentences):
    metric = EntityF1(replicas=10)
    for sentence in sentences:
        metric.add([said for said, _ in sentence], [true for _, true in sentence])
    return metric.result()


@given(st.lists(TAG, max_size=12))
def test_spans_are_conlleval_s(tags):
    assert set(spans(tags)) == conlleval(tags)


def test_spans_of_the_drawing():
    found = spans(["B-PER", "I-PER", "O", "I-LOC", "I-ORG", "B-ORG"])
    assert found == [Span(0, 2, "PER"), Span(3, 4, "LOC"), Span(4, 5, "ORG"), Span(5, 6, "ORG")]


def test_iob1_is_read_too():
    assert spans(["I-PER", "I-PER", "B-PER", "O"]) == [Span(0, 2, "PER"), Span(2, 3, "PER")]


def test_labels_may_hold_hyphens():
    assert spans(["B-work-of-art", "I-work-of-art"]) == [Span(0, 2, "work-of-art")]


@given(SENTENCES)
def test_agrees_with_sets(sentences):
    ours = run(sentences)
    said, true = (
        {(n, *s) for n, sentence in enumerate(sentences) for s in conlleval([tags[side] for tags in sentence])}
        for side in (0, 1)
    )
    for label in (None, "PER", "LOC"):
        some, gold = ({s for s in side if label in (None, s[3])} for side in (said, true))
        f1 = 2 * len(some & gold) / (len(some) + len(gold)) if some or gold else 0
        precision = len(some & gold) / len(some) if some else 0
        recall = len(some & gold) / len(gold) if gold else 0
        if label is None:
            assert ours.value == pytest.approx(f1)
            assert (ours.parts["precision"], ours.parts["recall"]) == (pytest.approx(precision), pytest.approx(recall))
        elif some or gold:
            theirs = [ours.parts[f"{name}[{label}]"] for name in ("precision", "recall", "f1")]
            assert theirs == pytest.approx([precision, recall, f1])


@given(SENTENCES)
def test_agrees_with_seqeval(sentences):
    theirs = pytest.importorskip("seqeval.metrics")
    said, true = ([[tags[side] for tags in sentence] for sentence in sentences] for side in (0, 1))
    ours = run(sentences)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours.value == pytest.approx(theirs.f1_score(true, said))
        assert ours.parts["precision"] == pytest.approx(theirs.precision_score(true, said))
        assert ours.parts["recall"] == pytest.approx(theirs.recall_score(true, said))


def test_no_entity_anywhere():
    one = run([[("O", "O")]])
    assert (one.value, one.count) == (0, 1)
    assert one.parts == {"precision": 0, "recall": 0}


@pytest.mark.parametrize("tag", ["", "PER", "B", "B-", "X-PER", "E-PER"])
def test_unknown_tags(tag):
    with pytest.raises(UsageError, match="neither O nor B-LABEL"):
        spans(["O", tag])


def test_lengths_must_agree():
    with pytest.raises(UsageError, match="2 gold tags but 1 predicted"):
        EntityF1().add(["O"], ["O", "O"])
