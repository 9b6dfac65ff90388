"""What any attention kernel with dropout must do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from qkv.common.ragged import Ragged
from qkv.nn.kernels import Call

Attend = Callable[[Call], Tensor]


def still(lengths: list[int], share: float, **more: Any) -> Call:
    """Equal weights over values that are the places themselves: what comes out is what was left of each weight."""
    layout = Ragged.of(lengths, "cuda")
    places = torch.cat([torch.eye(128, device="cuda", dtype=torch.bfloat16)[:n] for n in lengths])
    v = places[:, None].expand(-1, 2, -1).contiguous().requires_grad_()
    zero = torch.zeros_like(v)
    return Call(q=zero, k=zero, v=v, queries=layout, keys=layout, scale=0.1, dropout=share, **more)


def drops_the_same_both_ways(attend: Attend, call: Call, lengths: list[int], *, compiled: bool) -> None:
    """About `share` of the weights is dropped, the rest is scaled up, and gradients pass through the same weights."""
    share = call.dropout

    def work(x: Tensor) -> Tensor:
        return attend(replace(call, v=x))

    run = torch.compile(work) if compiled else work
    found = run(call.v)
    assert not run(call.v).equal(found)
    asked = torch.randn_like(found)
    (gradient,) = torch.autograd.grad(found, call.v, asked)
    parts = (x.float().split(lengths) for x in (found, gradient, asked))
    for left, back, given, n in zip(*parts, lengths, strict=True):
        weights = left[..., :n] * n
        assert (weights.eq(0) | (weights - 1 / (1 - share)).abs().lt(0.02)).all()
        if n > 30:
            assert abs(weights.eq(0).float().mean() - share) < 0.06
        wanted = torch.einsum("qnk,qnh->knh", left[..., :n], given)
        torch.testing.assert_close(back, wanted, atol=3e-2, rtol=3e-2)


@torch.no_grad()
def drops_others_at_each_replay(attend: Attend, call: Call) -> None:
    """A recorded pass draws anew."""
    attend(call)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attend(call)
    graph.replay()
    first = out.clone()
    graph.replay()
    assert not first.equal(out)
