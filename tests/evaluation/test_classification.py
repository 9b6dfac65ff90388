"""Classification against formulas over whole lists, and against scikit-learn where it is installed."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.evaluation import counts
from qkv.evaluation.classification import F1, Accuracy, BinaryF1, Matthews, MultiLabelF1

PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60)
SETS = st.lists(st.tuples(st.frozensets(st.sampled_from("abcd")), st.frozensets(st.sampled_from("abcd"))), min_size=1)


def run(metric, pairs):
    for prediction, gold in pairs:
        metric.add(prediction, gold)
    return metric.result()


def naive_f1(pairs, label):
    correct = sum(p == g == label for p, g in pairs)
    predicted, gold = sum(p == label for p, _ in pairs), sum(g == label for _, g in pairs)
    if correct == 0:
        return 0.0
    precision, recall = correct / predicted, correct / gold
    return 2 * precision * recall / (precision + recall)


def naive_matthews(pairs):
    """Correlate one-hot labellings: Gorodkin's definition, with every example kept."""
    names = sorted({label for pair in pairs for label in pair})
    x, y = (np.array([[pair[side] == name for name in names] for pair in pairs], dtype=float) for side in (0, 1))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    below = math.sqrt((x * x).sum() * (y * y).sum())
    return (x * y).sum() / below if below else 0.0


@given(PAIRS)
def test_agrees_with_lists(pairs):
    names = sorted({label for pair in pairs for label in pair})
    accuracy = sum(p == g for p, g in pairs) / len(pairs)
    assert run(Accuracy(), pairs).value == pytest.approx(accuracy)
    assert run(F1(average="micro", replicas=10), pairs).value == pytest.approx(accuracy)
    each = {f"f1[{name}]": naive_f1(pairs, name) for name in names}
    macro = run(F1(average="macro", replicas=10), pairs)
    assert macro.value == pytest.approx(sum(each.values()) / len(each))
    assert macro.parts == pytest.approx(each)
    assert run(BinaryF1(positive=1, replicas=10), pairs).value == pytest.approx(naive_f1(pairs, 1))
    assert run(Matthews(replicas=10), pairs).value == pytest.approx(naive_matthews(pairs), abs=1e-12)


@given(PAIRS)
def test_agrees_with_scikit_learn(pairs):
    theirs = pytest.importorskip("sklearn.metrics")
    prediction, gold = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(Accuracy(), pairs).value == pytest.approx(theirs.accuracy_score(gold, prediction))
        for average in ("micro", "macro"):
            ours = run(F1(average=average, replicas=10), pairs).value
            assert ours == pytest.approx(theirs.f1_score(gold, prediction, average=average))
        precision, recall, f1, _ = theirs.precision_recall_fscore_support(
            [g == 1 for g in gold], [p == 1 for p in prediction], average="binary", zero_division=0
        )
        ours = run(BinaryF1(positive=1, replicas=10), pairs)
        assert (ours.value, ours.parts) == (
            pytest.approx(f1),
            pytest.approx({"precision": precision, "recall": recall}),
        )
        matthews = theirs.matthews_corrcoef(gold, prediction)
        assert run(Matthews(replicas=10), pairs).value == pytest.approx(matthews, abs=1e-12)


@given(SETS)
def test_sets_agree_with_lists(pairs):
    exact = sum(p == g for p, g in pairs) / len(pairs)
    assert run(Accuracy(name="exact-match"), pairs).value == pytest.approx(exact)
    correct, said = sum(len(p & g) for p, g in pairs), sum(len(p) + len(g) for p, g in pairs)
    ours = run(MultiLabelF1(replicas=10), pairs)
    assert ours.value == pytest.approx(2 * correct / said if said else 0)
    each = {}
    for name in "abcd":
        flags = [(name in p, name in g) for p, g in pairs]
        if any(map(any, flags)):
            each[f"f1[{name}]"] = naive_f1(flags, True)
    assert ours.parts == pytest.approx(each)


@given(SETS)
def test_sets_agree_with_scikit_learn(pairs):
    theirs = pytest.importorskip("sklearn.metrics")
    prediction, gold = (np.array([[name in pair[side] for name in "abcd"] for pair in pairs]) for side in (0, 1))
    ours = run(MultiLabelF1(replicas=10), pairs).value
    assert ours == pytest.approx(theirs.f1_score(gold, prediction, average="micro", zero_division=0))
    assert run(Accuracy(), pairs).value == pytest.approx(theirs.accuracy_score(gold, prediction))


def test_interval_of_f1_is_that_of_resampled_lists():
    source = np.random.default_rng(0)
    gold = source.integers(0, 2, 300)
    prediction = np.where(source.random(300) < 0.7, gold, 1 - gold)
    ours = run(BinaryF1(), zip(prediction.tolist(), gold.tolist(), strict=True))
    drawn = source.integers(0, 300, (2000, 300))
    correct = (prediction & gold)[drawn].sum(axis=1)
    values = 2 * correct / (prediction[drawn].sum(axis=1) + gold[drawn].sum(axis=1))
    low, high = np.percentile(values, [2.5, 97.5])
    assert [ours.low, ours.high] == pytest.approx([low, high], abs=0.1 * (high - low))


def test_words_and_numbers_are_labels():
    assert run(F1(), [("cat", "cat"), (0, "dog"), (0, 0)]).parts == {"f1[0]": 2 / 3, "f1[cat]": 1, "f1[dog]": 0}


def test_parts_of_accuracy_and_signatures():
    assert run(Accuracy(), [(1, 1)]).signature == "ci:wilson"
    assert run(BinaryF1(), [(1, 1)]).signature == "average:binary|positive:1|ci:poisson-bootstrap-1000-seed-0"


def test_wrong_use():
    with pytest.raises(UsageError, match="did you mean 'macro'"):
        F1(average="marco")
    with pytest.raises(UsageError, match="allowed: micro, macro"):
        MultiLabelF1(average="samples")
    with pytest.raises(UsageError, match="not as a string"):
        MultiLabelF1().add("ab", {"a"})


def test_labels_are_bounded(monkeypatch):
    monkeypatch.setattr(counts, "MAX_LABELS", 5)
    metric = F1(replicas=2)
    for label in range(5):
        metric.add(label, label)
    with pytest.raises(UsageError, match="more than 5 different labels"):
        metric.add("sixth", 0)
    assert metric.result().value == 1
