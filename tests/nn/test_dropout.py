"""Dropout: the share, the scale, the gradient and the seed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from qkv.models import catalogue
from qkv.nn.dropout import Dropout, drop
from tests.contracts.entries import shrink


@given(p=st.floats(0.001, 0.999), seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_the_share_that_is_dropped_is_that_of_a_binomial(p: float, seed: int) -> None:
    torch.manual_seed(seed)
    number = 40_000
    dropped = int((drop(torch.ones(number), p) == 0).sum())
    assert stats.binomtest(dropped, number, p).pvalue > 1e-7


def test_each_of_the_four_numbers_of_a_draw_is_used_evenly_and_by_itself() -> None:
    torch.manual_seed(0)
    kept = (drop(torch.ones(400_000), 0.3) != 0).view(-1, 4).double()
    assert (kept.mean(0) - 0.7).abs().max() < 5 * (0.21 / 1e5) ** 0.5
    assert (torch.corrcoef(kept.T) - torch.eye(4)).abs().max() < 5 / 1e5**0.5


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_expectation_stays(p: float) -> None:
    torch.manual_seed(1)
    values = drop(torch.ones(1_000_000), p)
    assert abs(float(values.double().mean()) - 1) < 6 * (p / (1 - p) / 1e6) ** 0.5
    assert {round(v, 4) for v in values.unique().tolist()} == {0.0, round(1 / (1 - p), 4)}


@given(shape=st.lists(st.integers(0, 7), min_size=0, max_size=3), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_the_gradient_is_the_mask_times_the_scale(shape: list[int], seed: int) -> None:
    """Any size, a multiple of four or not, empty too."""
    torch.manual_seed(seed)
    x = (torch.rand(shape, dtype=torch.float64) + 1).requires_grad_()
    y, coming = drop(x, 0.4), torch.rand(shape, dtype=torch.float64)
    y.backward(coming)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, coming * (y != 0) / 0.6)
    torch.testing.assert_close(y, x * (y != 0) / 0.6)


def test_what_is_not_contiguous_is_dropped_all_the_same() -> None:
    torch.manual_seed(0)
    x = (torch.rand(64, 50) + 1).t()[3:, ::2]
    y = drop(x, 0.5)
    assert y.shape == x.shape
    assert 0.4 < (y == 0).float().mean() < 0.6
    torch.testing.assert_close(y[y != 0], 2 * x[y != 0])


def test_nothing_all_and_evaluation() -> None:
    x = torch.randn(5, 7)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros_like(x))
    assert Dropout(0.5).eval()(x) is x
    assert drop(x, 1 - 1e-9).isfinite().all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        Dropout(1.5)


def test_a_seed_gives_the_same_again_and_the_next_draw_another() -> None:
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = drop(x, 0.5), drop(x, 0.5)
    state = torch.get_rng_state()
    third = drop(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(drop(x, 0.5), first)
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(drop(x, 0.5), third)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_precision_stays(dtype: torch.dtype) -> None:
    assert drop(torch.ones(10, dtype=dtype), 0.5).dtype == dtype


@pytest.mark.parametrize("name", ["bert-tiny", "rnn-base", "vit-b16", "transformer-tiny"])
def test_no_model_has_the_slow_one(name: str) -> None:
    modules = list(catalogue.build(shrink(catalogue.preset(name))).modules())
    assert any(isinstance(m, Dropout) for m in modules)
    assert not [m for m in modules if isinstance(m, nn.Dropout) and not isinstance(m, Dropout)]
