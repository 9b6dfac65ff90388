"""What holds for every metric: order, intervals, perfection, emptiness, memory."""

import math
import random
import tracemalloc

import pytest

from qkv.common.errors import UsageError
from tests.evaluation.table import METRICS


def examples(name, count, seed=0):
    source = random.Random(seed)
    return [METRICS[name].example(source) for _ in range(count)]


def score(name, some):
    metric = METRICS[name].make()
    for example in some:
        metric.add(*example)
    return metric.result()


@pytest.mark.parametrize("name", METRICS)
def test_order_does_not_matter(name):
    some = examples(name, 300)
    one = score(name, some)
    random.Random(1).shuffle(some)
    other = score(name, some)
    assert other.value == pytest.approx(one.value, rel=1e-9)
    assert other.parts == pytest.approx(dict(one.parts), rel=1e-9)
    assert list(other.parts) == list(one.parts)
    assert (other.count, other.signature) == (one.count, one.signature)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 300])
@pytest.mark.parametrize("name", METRICS)
def test_the_interval_holds_the_value(name, count):
    for seed in range(3):
        one = score(name, examples(name, count, seed))
        assert one.low <= one.value <= one.high or math.isnan(one.value)


@pytest.mark.parametrize("name", METRICS)
def test_more_of_the_same_narrows_the_interval(name):
    some = examples(name, 250)
    one, four = score(name, some), score(name, some * 4)
    assert four.value == pytest.approx(one.value, rel=1e-9)
    assert four.count == 4 * one.count
    # Four times the data, half the width.
    assert 0.35 < (four.high - four.low) / (one.high - one.low) < 0.65


@pytest.mark.parametrize("name", [name for name, entry in METRICS.items() if not math.isnan(entry.perfect)])
def test_perfect(name):
    entry = METRICS[name]
    one = score(name, [entry.right(example) for example in examples(name, 100)])
    assert one.value == pytest.approx(entry.perfect, abs=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_nothing_is_an_error(name):
    with pytest.raises(UsageError, match="0 examples"):
        METRICS[name].make().result()


@pytest.mark.parametrize("name", METRICS)
def test_a_result_in_between_changes_nothing(name):
    metric, some = METRICS[name].make(), examples(name, 300)
    for place, example in enumerate(some):
        metric.add(*example)
        if place in (0, 100):
            metric.result()
    one, other = metric.result(), score(name, some)
    assert [one.value, one.low, one.high] == pytest.approx([other.value, other.low, other.high], rel=1e-9)
    assert (one.count, one.signature) == (other.count, other.signature)


def peak(name, count):
    """Return the most memory that a metric holds while examples stream through it."""
    source, entry = random.Random(0), METRICS[name]
    # A thousand examples over and over: sacrebleu remembers up to 65,536 different sentences.
    some = [entry.example(source) for _ in range(1000)]
    metric = entry.make()
    for example in some:
        metric.add(*example)
    tracemalloc.start()
    for place in range(count):
        metric.add(*some[place % 1000])
    metric.result()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


QUICK = [("accuracy", 10_000), ("perplexity", 1_000)]
DEAR = {"f1-binary": 10_000, "perplexity": 10_000, "bleu": 500, "chrf": 500}
# Spearman and what stands on it keep pairs up to a cap; test_correlation looks at that.
REST = [(name, DEAR.get(name, 2_000)) for name in METRICS if name not in ("accuracy", "spearman", "similarity")]


@pytest.mark.parametrize(("name", "size"), QUICK + [pytest.param(*case, marks=pytest.mark.slow) for case in REST])
def test_memory_does_not_grow(name, size):
    small, large = peak(name, size), peak(name, 10 * size)
    assert large < small * 1.05 + 20_000
