from __future__ import annotations

import math

import pytest

from qkv.common.errors import UsageError
from qkv.training.schedule import SCHEDULES, rate


@pytest.mark.parametrize("name", SCHEDULES)
def test_warm_up_rises_in_a_line_and_peaks_at_one(name: str) -> None:
    assert [rate(name, step, warmup=4, total=100) for step in (1, 2, 4)] == [0.25, 0.5, 1.0]
    assert all(rate(name, step, warmup=10, total=100) <= 1.0 for step in range(1, 101))


def test_inverse_square_root_is_the_papers() -> None:
    """Vaswani et al., eq. 3, up to the constant that makes its peak 1."""

    def paper(step: int, warmup: int) -> float:
        return min(step**-0.5, step * warmup**-1.5) / warmup**-0.5

    for step in range(1, 200):
        assert rate("inverse-sqrt", step, warmup=40, total=200) == pytest.approx(paper(step, 40))


def test_ends() -> None:
    assert rate("linear", 100, warmup=10, total=100) == pytest.approx(1 / 91)
    assert rate("linear", 56, warmup=11, total=100) == pytest.approx(0.5)
    assert rate("cosine", 100, warmup=0, total=100) == pytest.approx(0.1)
    assert rate("cosine", 50, warmup=0, total=100) == pytest.approx(0.55)
    assert rate("stable", 80, warmup=0, total=100) == 1.0
    assert rate("stable", 81, warmup=0, total=100) < 1.0
    assert rate("stable", 94, warmup=0, total=100) == pytest.approx(1 - math.sqrt(2 / 3))
    assert rate("stable", 100, warmup=0, total=100) == pytest.approx(1 - math.sqrt(20 / 21))
    assert rate("constant", 99, warmup=0, total=100) == 1.0


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(
    ("warmup", "total"), [(0, 1), (1, 1), (7, 1), (0, 2), (1, 2), (5, 5), (9, 5), (0, 37), (4, 100)]
)
def test_every_step_moves_the_weights(name: str, warmup: int, total: int) -> None:
    shares = [rate(name, step, warmup=warmup, total=total) for step in range(1, total + 1)]
    assert all(0 < share <= 1 for share in shares)
    after = shares[max(warmup, 1) - 1 :]
    assert after == sorted(after, reverse=True), "the rate never rises again after the warm-up"


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_rate_after_the_last_step_is_a_share_too(name: str) -> None:
    assert all(0 <= rate(name, step, warmup=warmup, total=3) <= 1 for warmup in (0, 4, 9) for step in (4, 5, 50))


def test_unknown() -> None:
    with pytest.raises(UsageError, match="did you mean 'cosine'"):
        rate("cosin", 5, warmup=0, total=10)
