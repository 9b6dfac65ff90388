"""The kernel for short sequences, run by Triton's interpreter on a CPU, against the formula."""

from __future__ import annotations

import pytest

from tests.interpreted import run_interpreted

pytest.importorskip("triton", reason="needs Triton: make test-kernels")

CHECK = """
import torch
from qkv.common.ragged import Ragged
from qkv.nn import short_attention as short
from qkv.nn.kernels import Call, eager

torch.manual_seed(0)
cases = [([3, 7, 1, 0, 5], [3, 7, 1, 0, 5], True), ([3, 7, 1], [5, 2, 9], False), ([17, 20], [17, 33], False),
         ([2, 1], [6, 9], True)]
for q_lengths, k_lengths, causal in cases:
    queries, keys = Ragged.of(q_lengths), Ragged.of(k_lengths)
    rows = torch.randn(sum(q_lengths), 3, 2, 16), torch.randn(sum(k_lengths), 3, 2, 16)
    q, k, v = rows[0][:, 0].requires_grad_(), rows[1][:, 1].requires_grad_(), rows[1][:, 2].requires_grad_()
    layout = (queries.offsets, keys.offsets, queries.lengths, keys.lengths)
    longest = (queries.max_length, keys.max_length)
    found = short.attend(q, k, v, *layout, None, *longest, 0.25, causal, 0.0)
    wanted = eager(Call(q=q, k=k, v=v, queries=queries, keys=keys, scale=0.25, causal=causal))
    asked = torch.randn_like(found)
    torch.testing.assert_close(found, wanted)
    gradients = [torch.autograd.grad(out, (q, k, v), asked) for out in (found, wanted)]
    torch.testing.assert_close(*gradients)
empty = Ragged.of([2]), Ragged.of([0])
layout = (empty[0].offsets, empty[1].offsets, empty[0].lengths, empty[1].lengths, None, 2, 1)
nothing = short.attend(torch.randn(2, 2, 16), torch.randn(0, 2, 16), torch.randn(0, 2, 16), *layout, 0.25, False, 0.0)
assert nothing.eq(0).all()
print("same")
"""


def test_values_and_gradients_are_those_of_the_formula() -> None:
    run_interpreted(CHECK)


DROPPED = """
import torch
from qkv.common.ragged import Ragged
from qkv.nn import short_attention as short

torch.manual_seed(0)
lengths, heads, share = [9, 16, 3], 2, 0.3
layout = Ragged.of(lengths)
seed = torch.tensor([7])
where = (layout.offsets, layout.offsets, layout.lengths, layout.lengths)

def attend(q, k, v, seed=seed):
    return short.attend(q, k, v, *where, seed, layout.max_length, layout.max_length, 0.25, False, share)

# Equal weights over values that are the places themselves: what comes out is what was left of each weight.
eye = torch.cat([torch.eye(16)[:n] for n in lengths])[:, None].expand(-1, heads, -1).contiguous()
still = torch.zeros_like(eye)
left = attend(still, still, eye)
parts = [x * n for x, n in zip(left.split(lengths), lengths)]
for x, n in zip(parts, lengths):
    assert x[..., n:].eq(0).all()
    assert (x[..., :n].eq(0) | (x[..., :n] - 1 / (1 - share)).abs().lt(1e-5)).all()
kept = torch.cat([x[..., :n].flatten() for x, n in zip(parts, lengths)]).ne(0).float().mean()
assert 0.6 < kept < 0.8, kept
assert attend(still, still, eye).equal(left)
assert not attend(still, still, eye, torch.tensor([8])).equal(left)

q, k, v = (torch.randn(sum(lengths), heads, 16, requires_grad=True) for _ in range(3))
asked = torch.randn(sum(lengths), heads, 16)
rows = []
for a, b, c, x, n in zip(*(t.split(lengths) for t in (q, k, v)), parts, lengths):
    weights = torch.einsum("qnh,knh->nqk", a, b).mul(0.25).softmax(-1) * x[..., :n].transpose(0, 1)
    rows.append(torch.einsum("nqk,knh->qnh", weights, c))
wanted, found = torch.cat(rows), attend(q, k, v)
torch.testing.assert_close(found, wanted)
torch.testing.assert_close(*[torch.autograd.grad(out, (q, k, v), asked) for out in (found, wanted)])
print("same")
"""


def test_dropout_leaves_the_same_weights_forwards_and_backwards() -> None:
    run_interpreted(DROPPED)
