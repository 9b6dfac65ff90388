"""The kernel for short sequences on CUDA, in the precisions that models run in."""

from __future__ import annotations

import pytest
import torch

from qkv.common.ragged import Ragged
from qkv.nn import short_attention as short
from qkv.nn.kernels import Call, eager, varlen

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
    lengths, share = [longest, 7, longest // 2], 0.25
    layout = Ragged.of(lengths, "cuda")
    places = torch.cat([torch.eye(128, device="cuda", dtype=torch.bfloat16)[:n] for n in lengths])
    v = places[:, None].expand(-1, 2, -1).contiguous().requires_grad_()

    def work(x: torch.Tensor) -> torch.Tensor:
        still = torch.zeros_like(x)
        return varlen(Call(q=still, k=still, v=x, queries=layout, keys=layout, scale=0.1, dropout=share))

    run = torch.compile(work) if compiled else work
    found = run(v)  # equal weights over values that are the places: what was left of each weight
    again = run(v)
    assert not again.equal(found)
    asked = torch.randn_like(found)
    (gradient,) = torch.autograd.grad(found, v, asked)
    parts = (x.float().split(lengths) for x in (found, gradient, asked))
    for left, back, given, n in zip(*parts, lengths, strict=True):
        weights = left[..., :n] * n
        assert (weights.eq(0) | (weights - 1 / (1 - share)).abs().lt(0.02)).all()
        if n > 30:
            assert abs(weights.eq(0).float().mean() - share) < 0.06
        wanted = torch.einsum("qnk,qnh->knh", left[..., :n], given)
        torch.testing.assert_close(back, wanted, atol=3e-2, rtol=3e-2)


def test_a_recorded_pass_drops_others_at_each_replay() -> None:
    for length in (40, 100):
        layout = Ragged.of([length, 5], "cuda")
        x = torch.randn(length + 5, 2, 32, device="cuda", dtype=torch.bfloat16)
        call = Call(q=x, k=x, v=x, queries=layout, keys=layout, scale=0.2, dropout=0.5)
        varlen(call)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = varlen(call)
        found = []
        for _ in range(2):
            graph.replay()
            found.append(out.clone())
        assert not found[0].equal(found[1])
