"""Wilson's interval against its definition."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.evaluation.proportion import Z, wilson


@given(st.integers(1, 5000).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count))))
def test_ends_solve_the_score_equation(pair):
    hits, count = pair
    share = hits / count
    low, high = wilson(hits, count)
    assert 0 <= low <= share <= high <= 1
    for end in (low, high):
        # The ends are the truths that lie z standard errors, of the truth, from the share.
        assert abs(share - end) == pytest.approx(Z * math.sqrt(end * (1 - end) / count), abs=1e-7)


def test_a_perfect_share_is_not_certain():
    low, high = wilson(20, 20)
    assert high == 1
    assert low == pytest.approx(20 / (20 + Z * Z))


def test_scipy_agrees():
    stats = pytest.importorskip("scipy.stats")
    for hits, count in [(0, 5), (3, 10), (99, 100), (1234, 5000)]:
        theirs = stats.binomtest(hits, count).proportion_ci(method="wilson")
        assert wilson(hits, count) == pytest.approx(tuple(theirs), abs=1e-12)
