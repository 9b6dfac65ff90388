"""Correlations against numpy, naive ranks and scipy."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.evaluation.correlation import MeanSquaredError, Pearson, Spearman, fisher

# Few values, so that there are ties; eighths, so that float32 holds them.
NUMBER = st.integers(-40, 40).map(lambda eighths: eighths / 8)
PAIRS = st.lists(st.tuples(NUMBER, NUMBER), min_size=2, max_size=60)


def run(metric, pairs):
    for prediction, gold in pairs:
        metric.add(prediction, gold)
    return metric.result()


def naive_ranks(values):
    return [sum(v < value for v in values) + (sum(v == value for v in values) + 1) / 2 for value in values]


def naive_pearson(x, y):
    if len(set(x)) == 1 or len(set(y)) == 1:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


@given(PAIRS)
def test_agrees_with_lists(pairs):
    x, y = zip(*pairs, strict=True)
    near = {"nan_ok": True, "abs": 1e-9}
    assert run(Pearson(replicas=10), pairs).value == pytest.approx(naive_pearson(x, y), **near)
    ranks = naive_pearson(naive_ranks(x), naive_ranks(y))
    assert run(Spearman(), pairs).value == pytest.approx(ranks, **near)
    error = run(MeanSquaredError(replicas=10), pairs)
    assert error.value == pytest.approx(np.mean(np.subtract(x, y) ** 2))
    assert error.parts["rmse"] == pytest.approx(math.sqrt(error.value))
    assert error.parts["mae"] == pytest.approx(np.mean(np.abs(np.subtract(x, y))))


@given(PAIRS)
def test_agrees_with_scipy(pairs):
    stats = pytest.importorskip("scipy.stats")
    x, y = zip(*pairs, strict=True)
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert run(Pearson(replicas=10), pairs).value == pytest.approx(stats.pearsonr(x, y)[0], abs=1e-9)
        assert run(Spearman(), pairs).value == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-9)


def test_numbers_far_from_zero():
    """Sums of raw squares would lose every digit here."""
    source = np.random.default_rng(0)
    x = source.normal(size=2000)
    y = x + source.normal(size=2000)
    ours = run(Pearson(), zip(x + 1e9, y - 1e8, strict=True))
    assert ours.value == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-6)


def test_interval_of_pearson_is_near_fisher_s():
    """Of normal numbers Fisher's interval is right, with variance 1 / (n - 3)."""
    source = np.random.default_rng(1)
    x = source.normal(size=1000)
    y = x + source.normal(size=1000)
    ours = run(Pearson(), zip(x, y, strict=True))
    half = 1.96 / math.sqrt(997)
    low, high = np.tanh([np.arctanh(ours.value) - half, np.arctanh(ours.value) + half])
    assert [ours.low, ours.high] == pytest.approx([low, high], abs=0.15 * (high - low))


def test_interval_of_spearman_covers():
    source, inside = np.random.default_rng(2), 0
    truth = 6 / math.pi * math.asin(0.6 / 2)  # of normal pairs with correlation 0.6
    for _ in range(300):
        pairs = source.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=100)
        one = run(Spearman(), pairs)
        inside += one.low <= truth <= one.high
    assert 0.92 <= inside / 300 <= 0.98


def test_fisher_at_the_edges():
    assert fisher(0.5, 3) == (-1, 1)
    assert fisher(1.0, 10) == (1, 1)
    assert fisher(-1.0, 10) == (-1, -1)


@pytest.mark.parametrize("metric", [Pearson, Spearman])
def test_a_constant_has_no_correlation(metric):
    one = run(metric(), [(0.1, 1.0), (0.1, 2.0), (0.1, 3.0)])
    assert all(map(math.isnan, (one.value, one.low, one.high)))


def test_spearman_samples_beyond_its_cap():
    source = random.Random(0)
    x = [source.random() for _ in range(20_000)]
    pairs = [(value, value + source.random()) for value in x]
    whole, part = run(Spearman(), pairs), run(Spearman(cap=2000), pairs)
    assert (whole.count, part.count) == (20_000, 20_000)
    assert "cap:1000000|sampled:no" in whole.signature
    assert "cap:2000|sampled:yes" in part.signature
    assert part.low <= whole.value <= part.high
    assert part.high - part.low == pytest.approx((whole.high - whole.low) * math.sqrt(10), rel=0.1)


def test_the_sample_is_uniform():
    """Each of 50 pairs stays with chance 10 / 50."""
    kept = np.zeros(50)
    for seed in range(600):
        metric = Spearman(cap=10, seed=seed)
        for place in range(50):
            metric.add(place, -place)
        kept[np.array(metric._x, dtype=int)] += 1
        assert [-x for x in metric._x] == list(metric._y)
    assert kept.sum() == 6000
    assert np.abs(kept / 600 - 0.2).max() < 0.07


def test_wrong_use():
    with pytest.raises(UsageError, match="cap must be at least 1, not 0"):
        Spearman(cap=0)
    metric = Spearman()
    metric.add(1, 2)
    with pytest.raises(UsageError, match="example 1 contains"):
        metric.add(math.nan, 2)
