"""The streaming bootstrap against the one that keeps everything, and its promise of 95 %."""

import math
import time
from collections import Counter

import numpy as np
import pytest

from qkv.common.errors import UsageError
from qkv.evaluation.bootstrap import BATCH, Bootstrap
from qkv.evaluation.classification import Accuracy, BinaryF1
from qkv.evaluation.correlation import Pearson


def mean(sums_RK):
    return np.where(sums_RK[:, 0] > 0, sums_RK[:, 1] / np.maximum(sums_RK[:, 0], 1), np.nan)


def filled(values, **settings):
    sums = Bootstrap(2, **settings)
    for value in values:
        sums.add((1, value))
    return sums


def test_weights_are_poisson():
    weights = Bootstrap(1)._weights(0, 1000).ravel()
    assert weights.mean() == pytest.approx(1, abs=0.005)
    assert weights.var() == pytest.approx(1, abs=0.01)
    share = {int(count): number / len(weights) for count, number in Counter(weights).items()}
    for count in range(6):
        assert share[count] == pytest.approx(math.exp(-1) / math.factorial(count), abs=0.002)


def test_weights_depend_on_seed_and_number_alone():
    whole = Bootstrap(1, replicas=50, seed=3)._weights(0, 700)
    assert np.array_equal(whole[200:300], Bootstrap(9, replicas=50, seed=3)._weights(200, 100))
    assert not np.array_equal(whole, Bootstrap(1, replicas=50, seed=4)._weights(0, 700))
    # Neither examples nor replicas repeat one another.
    assert len({row.tobytes() for row in whole}) == 700
    assert len({row.tobytes() for row in whole.T.copy()}) == 50


@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH + 5])
def test_sums_are_those_of_all_weights_at_once(count):
    values = np.random.default_rng(0).normal(size=count)
    sums = filled(values, replicas=37)
    assert sums.totals() == pytest.approx([count, values.sum()])
    rows = np.stack([np.ones(count), values], axis=1)
    assert sums._sums_RK == pytest.approx(Bootstrap(2, replicas=37)._weights(0, count).T @ rows)


def test_agrees_with_the_bootstrap_that_keeps_everything():
    values = np.random.default_rng(1).exponential(size=400)
    one = filled(values).score("mean", mean)
    drawn = np.random.default_rng(2).choice(values, size=(4000, 400)).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert one.value == pytest.approx(values.mean(), rel=1e-12)
    assert [one.low, one.high] == pytest.approx([low, high], abs=0.1 * (high - low))


def test_a_coin_is_inside_95_times_in_100():
    """The share of 400 simulated coins whose interval holds the truth; its own error is about 0.011."""
    coins = np.random.default_rng(5).random((400, 150)) < 0.3
    inside = {"bootstrap": 0, "wilson": 0}
    for seed, coin in enumerate(coins):
        shares = Accuracy()
        for heads in coin:
            shares.add(heads, True)
        scores = {"bootstrap": filled(coin, seed=seed).score("coin", mean), "wilson": shares.result()}
        for name, one in scores.items():
            inside[name] += one.low <= 0.3 <= one.high
    assert 0.92 <= inside["bootstrap"] / 400 <= 0.98
    assert 0.92 <= inside["wilson"] / 400 <= 0.98


@pytest.mark.slow
def test_a_correlation_is_inside_95_times_in_100():
    source, inside = np.random.default_rng(6), 0
    for seed in range(300):
        metric = Pearson(seed=seed)
        for x, noise in source.normal(size=(300, 2)):
            metric.add(x, 0.6 * x + 0.8 * noise)
        one = metric.result()
        inside += one.low <= 0.6 <= one.high
    assert 0.91 <= inside / 300 <= 0.98


def test_columns_may_come_later():
    sums = Bootstrap(1, replicas=20)
    for value in range(300):
        if value == 280:
            sums.widen(3)
        sums.add([value], [0 if value < 280 else 2])
    fixed = Bootstrap(3, replicas=20)
    for value in range(300):
        fixed.add([value], [0 if value < 280 else 2])
    assert np.array_equal(sums.totals(), fixed.totals())
    assert np.array_equal(sums._sums_RK, fixed._sums_RK)


def test_undefined_replicas_are_left_out():
    one = filled([0.25]).score("mean", mean)
    assert (one.low, one.value, one.high) == (0.25, 0.25, 0.25)


def test_undefined_value():
    sums = filled([1.0])
    nothing = lambda sums_RK: np.full(len(sums_RK), np.nan)  # noqa: E731
    assert sums.score("x", nothing).value == 0
    assert math.isnan(sums.score("x", nothing, undefined=math.nan).low)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_named(bad):
    sums = filled([1.0] * 300 + [bad] + [1.0] * 10)
    with pytest.raises(UsageError, match="example 300 "):
        sums.totals()
    with pytest.raises(UsageError, match="example 300 "):
        filled([bad if place == 300 else 1.0 for place in range(3 * BATCH)])


@pytest.mark.parametrize("settings", [{"replicas": 0}, {"seed": -1}])
def test_settings_are_checked(settings):
    with pytest.raises(UsageError, match="at least"):
        Bootstrap(1, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "rate"), [(Accuracy, 50_000), (BinaryF1, 25_000)])
def test_speed(metric, rate):
    """Accuracy takes 50,000 examples a second; F1, which is resampled, half of that even on a busy machine."""
    best = math.inf
    for _ in range(3):
        one, start = metric(), time.thread_time()
        for place in range(50_000):
            one.add(place % 2, place % 3 % 2)
        one.result()
        best = min(best, time.thread_time() - start)
    assert 50_000 / best > rate
