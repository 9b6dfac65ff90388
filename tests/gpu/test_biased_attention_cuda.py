"""The kernel for biases by distance on CUDA: precisions, dropout, compiled and recorded."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from qkv.common.ragged import Ragged
from qkv.nn.kernels import Bias, Call, biased, eager
from tests.gpu.dropout import drops_others_at_each_replay, drops_the_same_both_ways, still

pytestmark = pytest.mark.gpu
CASES = [
    ([3, 7, 1, 0, 5], None, True, 4, torch.bfloat16, 64),
    ([3, 70, 1, 0, 500], None, False, 128, torch.bfloat16, 64),
    ([3, 70, 1, 0, 500], None, True, 128, torch.bfloat16, 128),
    ([17, 1, 66], [17, 33, 140], True, 20, torch.float16, 24),
]  # each builds four kernels, which takes seconds


@pytest.mark.parametrize(("q_lengths", "k_lengths", "causal", "reach", "dtype", "width"), CASES)
def test_values_and_gradients_are_those_of_the_formula(
    q_lengths: list[int], k_lengths: list[int] | None, causal: bool, reach: int, dtype: torch.dtype, width: int
) -> None:
    torch.manual_seed(0)
    queries = Ragged.of(q_lengths, "cuda")
    keys = queries if k_lengths is None else Ragged.of(k_lengths, "cuda")
    q = torch.randn(queries.num_rows, 3, width, device="cuda", dtype=dtype)
    k, v = torch.randn(keys.num_rows, 2, 3, width, device="cuda", dtype=dtype).unbind(1)  # rows that lie apart
    table = torch.randn(3, 2 * reach + 1, device="cuda")
    given = [x.detach().requires_grad_() for x in (q, k, v, table)]
    exact = [x.detach().float().requires_grad_() for x in (q, k, v, table)]
    layouts = {"queries": queries, "keys": keys, "scale": width**-0.5, "causal": causal}
    found = biased(Call(q=given[0], k=given[1], v=given[2], bias=Bias(given[3]), **layouts))
    wanted = eager(Call(q=exact[0], k=exact[1], v=exact[2], bias=Bias(exact[3]), **layouts))
    asked = torch.randn_like(q)
    near(found, wanted, 0.01)
    mine = torch.autograd.grad(found, given, asked)
    for one, other in zip(mine, torch.autograd.grad(wanted, exact, asked.float()), strict=True):
        near(one, other, 0.02)


def near(found: Tensor, wanted: Tensor, room: float) -> None:
    assert found.isfinite().all()
    assert (found.float() - wanted).norm() <= room * wanted.norm() + 1e-4


def unbiased(lengths: list[int], share: float) -> Call:
    return still(lengths, share, bias=Bias(torch.zeros(2, 1, device="cuda")))


@pytest.mark.parametrize("compiled", [False, True])
def test_dropout_leaves_the_same_weights_forwards_and_backwards(compiled: bool) -> None:
    torch.manual_seed(0)
    lengths = [100, 7, 40]
    drops_the_same_both_ways(biased, unbiased(lengths, 0.25), lengths, compiled=compiled)


def test_a_recorded_pass_drops_others_at_each_replay() -> None:
    drops_others_at_each_replay(biased, unbiased([100, 5], 0.5))


def test_gradients_have_the_same_bits_each_time() -> None:
    torch.manual_seed(0)
    layout = Ragged.of([300, 5, 128, 77], "cuda")
    q, k, v = (torch.randn(510, 4, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    table = torch.randn(4, 257, device="cuda", requires_grad=True)
    call = Call(q=q, k=k, v=v, queries=layout, keys=layout, scale=1.0, bias=Bias(table))
    first, second = (torch.autograd.grad(biased(call).float().square().sum(), (q, k, v, table)) for _ in range(2))
    assert all(a.equal(b) for a, b in zip(first, second, strict=True))
