"""The paired bootstrap, against McNemar's exact test and against what must hold of any paired test."""

import math
import random

import pytest
from scipy.stats import binomtest

from qkv.evaluation.classification import F1, Accuracy, Matthews
from qkv.evaluation.correlation import Spearman
from qkv.evaluation.paired import paired
from qkv.evaluation.translation import Bleu


def accuracies(first, second):
    """Score two lists of hits."""
    metrics = Accuracy(), Accuracy()
    for metric, hits in zip(metrics, (first, second), strict=True):
        for hit in hits:
            metric.add(hit, 1)
    return [metric.result() for metric in metrics]


def hits(better, worse, both, neither):
    """Make answers: `better` examples that only the second model gets right, and so on; in a random order."""
    rows = [(0, 1)] * better + [(1, 0)] * worse + [(1, 1)] * both + [(0, 0)] * neither
    random.Random(0).shuffle(rows)
    return zip(*rows, strict=True)


@pytest.mark.parametrize(("better", "worse"), [(30, 10), (12, 10), (10, 30), (60, 20), (5, 4)])
def test_it_agrees_with_mcnemar(better, worse):
    found = paired(*accuracies(*hits(better, worse, 300, 60)))
    exact = binomtest(better, better + worse).pvalue
    assert found.value == pytest.approx((better - worse) / (better + worse + 360))
    assert found.low <= found.value <= found.high
    assert (found.p < 0.05) == (exact < 0.05)
    assert (found.low > 0 or found.high < 0) == (exact < 0.05)
    # Known: the difference of two proportions of the same examples.
    count = better + worse + 360
    spread = math.sqrt(better + worse - (better - worse) ** 2 / count) / count
    assert found.high - found.low == pytest.approx(2 * 1.96 * spread, rel=0.15)


def test_a_model_does_not_differ_from_itself():
    a, b = accuracies([1, 0, 1, 1] * 20, [1, 0, 1, 1] * 20)
    found = paired(a, b)
    assert (found.value, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_both_ways_are_mirror_images():
    a, b = accuracies(*hits(30, 10, 100, 100))
    one, other = paired(a, b), paired(b, a)
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    assert one.p == other.p


@pytest.mark.parametrize("make", [F1, Bleu], ids=["f1", "bleu"])
def test_metrics_of_sums_are_paired_too(make):
    good, bad = make(), make()
    for number in range(60):
        right = ["a b c d e", "f g h i j"][number % 2]
        wrong = right if number % 3 else "x y z"
        answers = (right, [right]) if make is Bleu else (right, right)
        good.add(*answers)
        bad.add(wrong, answers[1])
    found = paired(bad.result(), good.result())
    assert found.value > 0
    assert found.low > 0
    assert found.p < 0.01


def test_what_measures_something_else_is_not_compared():
    a, _ = accuracies([1, 0], [1, 0])
    b, _ = accuracies([1, 0, 1], [1, 0, 1])
    assert paired(a, b) is None


def test_a_metric_without_replicas_gives_the_difference_alone():
    metric = Spearman()
    for number in range(9):
        metric.add(number, number % 4)
    found = paired(metric.result(), metric.result())
    assert found.to_dict() == {"name": "spearman", "value": 0.0, "low": None, "high": None, "p": None}


def test_a_metric_that_is_undefined_in_every_replica_has_no_interval():
    constant, good = Matthews(), Matthews()
    for number in range(20):
        constant.add(0, number % 2)
        good.add(number % 2, number % 2)
    found = paired(constant.result(), good.result())
    assert found.value == pytest.approx(1)
    assert math.isnan(found.low)
    assert math.isnan(found.p)
