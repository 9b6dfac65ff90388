"""Offsets that make classes win their shares."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.evaluation.rates import matching_offsets, rates


@given(st.integers(2, 300), st.floats(0, 1), st.floats(-3, 3), st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_of_two_classes_each_wins_its_share_to_the_row(number: int, share: float, lean: float, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(number, 2)) + np.array([0, lean])
    offsets = matching_offsets(scores, np.array([1 - share, share]))
    wanted = min(max(round(share * number), 1), number - 1)
    assert abs(rates(scores + offsets)[1] * number - wanted) <= 1  # each share is rounded by itself
    assert abs(offsets.sum()) < 1e-9


@given(st.integers(3, 6), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_of_several_classes_each_wins_about_its_share(classes: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    scores = draw.normal(size=(600, classes)) + draw.normal(size=classes)
    shares = draw.dirichlet(np.full(classes, 3.0))
    off = np.abs(rates(scores + matching_offsets(scores, shares)) - shares).max()
    assert off < 0.02
    assert off <= np.abs(rates(scores) - shares).max() + 0.01


def test_scores_that_are_right_already_are_left_nearly_alone() -> None:
    scores = np.random.default_rng(0).normal(size=(1000, 2))
    assert np.abs(matching_offsets(scores, rates(scores))).max() < 0.01


def test_one_row_has_one_winner_and_equal_rows_are_no_fault() -> None:
    assert np.isfinite(matching_offsets(np.array([[0.0, 1.0]]), np.array([0.5, 0.5]))).all()
    assert np.isfinite(matching_offsets(np.zeros((7, 3)), np.array([0.2, 0.3, 0.5]))).all()
