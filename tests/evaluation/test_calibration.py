"""Calibration against the formula of Guo et al. (2017), and scores by length."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from qkv.evaluation.calibration import BINS, Calibration
from qkv.evaluation.classification import Accuracy
from qkv.evaluation.lengths import ByLength
from qkv.evaluation.prediction import Confidence


def filled(chances: np.ndarray, hits: np.ndarray) -> Calibration:
    found = Calibration()
    for chance, hit in zip(chances, hits, strict=True):
        found.add(Confidence(float(chance), bool(hit)))
    return found


def test_the_error_is_the_formula() -> None:
    draw = np.random.default_rng(0)
    chances = draw.uniform(0.3, 1.0, 500)
    hits = draw.uniform(size=500) < chances**2
    found = filled(chances, hits).result()
    assert found is not None
    places = np.minimum((chances * BINS).astype(int), BINS - 1)
    groups = [(chances[places == i], hits[places == i]) for i in range(BINS) if (places == i).any()]
    assert found.error == pytest.approx(sum(len(c) * abs(c.mean() - h.mean()) for c, h in groups) / 500)
    theirs = calibration_curve(hits, chances, n_bins=BINS)
    assert np.allclose([(one.accuracy, one.chance) for one in found.bins], np.transpose(theirs))
    assert (found.chance, found.accuracy) == pytest.approx((chances.mean(), hits.mean()))


def test_a_model_that_knows_how_sure_it_is_has_no_error() -> None:
    found = filled(np.repeat([0.25, 0.75], 4), np.array([1, 0, 0, 0, 1, 1, 1, 0])).result()
    assert found is not None
    assert found.error == pytest.approx(0)


@pytest.mark.parametrize("chance", [0.0, 1.0, 1.0000001])
def test_the_ends_belong_to_a_bin(chance: float) -> None:
    found = filled(np.array([chance]), np.array([1])).result()
    assert found is not None
    assert [one.count for one in found.bins] == [1]


def test_no_answers_no_result() -> None:
    assert Calibration().result() is None


def test_lengths_are_ranges_that_double() -> None:
    found = ByLength(Accuracy)
    for length in (0, 1, 16, 17, 32, 33, 1000, 1024, 1025):
        found.add(length, "a", "a" if length % 2 else "b")
    result = found.result()
    assert [(one.low, one.high, one.score.count) for one in result] == [
        (1, 16, 3), (17, 32, 2), (33, 64, 1), (513, 1024, 2), (1025, 2048, 1),
    ]  # fmt: skip
    assert [one.score.value for one in result] == [1 / 3, 0.5, 1.0, 0.0, 1.0]
