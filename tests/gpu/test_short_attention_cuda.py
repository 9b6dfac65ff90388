"""The kernel for short sequences on CUDA, in the precisions that models run in."""

from __future__ import annotations

import pytest
import torch

from qkv.common.ragged import Ragged
from qkv.nn import short_attention as short
from qkv.nn.kernels import Call, eager, varlen
from tests.gpu.dropout import drops_others_at_each_replay, drops_the_same_both_ways, still

pytestmark = pytest.mark.gpu
CASES = [
    ([3, 7, 1, 0, 5], [3, 7, 1, 0, 5], True),
    ([3, 7, 1, 4], [5, 2, 9, 1], False),
    ([17, 40, 64], [17, 33, 64], False),
    ([64, 1], [64, 1], True),
]


@pytest.mark.parametrize(
    ("width", "dtype"), [*((width, torch.bfloat16) for width in short.HEAD_DIMS), (64, torch.float16)]
)
@pytest.mark.parametrize(("q_lengths", "k_lengths", "causal"), CASES)
def test_values_and_gradients_are_those_of_the_formula(
    q_lengths: list[int], k_lengths: list[int], causal: bool, width: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    queries, keys = Ragged.of(q_lengths, "cuda"), Ragged.of(k_lengths, "cuda")
    q = torch.randn(sum(q_lengths), 3, width, device="cuda", dtype=dtype)
    k, v = torch.randn(sum(k_lengths), 2, 3, width, device="cuda", dtype=dtype).unbind(1)  # rows that lie apart
    given = [x.detach().requires_grad_() for x in (q, k, v)]
    exact = [x.detach().float().requires_grad_() for x in (q, k, v)]
    asked = torch.randn_like(q)
    layouts = {"queries": queries, "keys": keys, "scale": width**-0.5, "causal": causal}
    found = varlen(Call(q=given[0], k=given[1], v=given[2], **layouts))
    wanted = eager(Call(q=exact[0], k=exact[1], v=exact[2], **layouts))
    torch.testing.assert_close(found.float(), wanted, atol=2e-2, rtol=2e-2)
    gradients = zip(
        torch.autograd.grad(found, given, asked), torch.autograd.grad(wanted, exact, asked.float()), strict=True
    )
    for one, other in gradients:
        torch.testing.assert_close(one.float(), other, atol=3e-2, rtol=3e-2)


def test_it_can_be_compiled_and_recorded() -> None:
    layout = Ragged.of([5, 9, 3], "cuda")
    q = torch.randn(17, 2, 32, device="cuda", dtype=torch.bfloat16)

    def work(x: torch.Tensor) -> torch.Tensor:
        return varlen(Call(q=x * 2, k=x, v=x, queries=layout, keys=layout, scale=0.2)).sum()

    torch.testing.assert_close(torch.compile(work)(q), work(q), atol=1e-1, rtol=1e-2)


@pytest.mark.parametrize("longest", [40, 100])  # the kernel for short sequences, and flash attention
@pytest.mark.parametrize("compiled", [False, True])
def test_dropout_leaves_the_same_weights_forwards_and_backwards(longest: int, compiled: bool) -> None:
    torch.manual_seed(0)
    lengths = [longest, 7, longest // 2]
    drops_the_same_both_ways(varlen, still(lengths, 0.25), lengths, compiled=compiled)


@pytest.mark.parametrize("longest", [40, 100])
def test_a_recorded_pass_drops_others_at_each_replay(longest: int) -> None:
    drops_others_at_each_replay(varlen, still([longest, 5], 0.5))
