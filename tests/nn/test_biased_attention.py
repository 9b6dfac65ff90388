"""The kernel for biases by distance, run by Triton's interpreter on a CPU, against the formula."""

from __future__ import annotations

import pytest
import torch

from qkv.nn.biased_attention import _by_distance
from tests.interpreted import run_interpreted

START = """
import torch
from qkv.common.ragged import Ragged
from qkv.nn import biased_attention as biased
from qkv.nn.kernels import Bias, Call, eager

def attend(call, seed=None):
    queries, keys = call.queries, call.keys
    layout = (queries.offsets, keys.offsets, queries.lengths, keys.lengths)
    kind = (call.scale, call.causal, -1 if call.window is None else call.window, call.dropout)
    return biased.attend(
        call.q, call.k, call.v, call.bias.table, *layout, seed, queries.max_length, keys.max_length, *kind)[0]

torch.manual_seed(0)
"""

CHECK = (
    START
    + """
cases = [  # lengths of queries and keys, causal, reach of the table, window
    ([3, 70, 1, 0, 5], None, True, 4, None),
    ([3, 70, 1, 0, 5], None, False, 100, None),
    ([17, 20], [17, 33], False, 0, None),
    ([2, 1, 66], [6, 9, 140], True, 20, None),
    ([130], [10], False, 33, None),
    ([80, 7], None, True, 200, 11),
    ([80, 7], None, False, 5, 11),
]
for q_lengths, k_lengths, causal, reach, window in cases:
    queries = Ragged.of(q_lengths)
    keys = queries if k_lengths is None else Ragged.of(k_lengths)
    rows = torch.randn(queries.num_rows, 3, 2, 24), torch.randn(keys.num_rows, 3, 2, 24)
    q, k, v = rows[0][:, 0].requires_grad_(), rows[1][:, 1].requires_grad_(), rows[1][:, 2].requires_grad_()
    table = torch.randn(2, 2 * reach + 1, requires_grad=True)
    call = Call(q=q, k=k, v=v, queries=queries, keys=keys, scale=0.25, causal=causal, window=window, bias=Bias(table))
    found, wanted = attend(call), eager(call)
    torch.testing.assert_close(found, wanted)
    asked = torch.randn_like(found)
    gradients = [torch.autograd.grad(out, (q, k, v, table), asked) for out in (found, wanted)]
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)
print("same")
"""
)


@pytest.fixture(autouse=True)
def _triton(request: pytest.FixtureRequest) -> None:
    if "distance" not in request.node.name:
        pytest.importorskip("triton", reason="needs Triton: make test-kernels")


def test_values_and_gradients_are_those_of_the_formula() -> None:
    run_interpreted(CHECK)


SLACK = (
    START
    + """
lengths = [9, 1, 20]
keys = Ragged(torch.arange(4, dtype=torch.int32) * 24, torch.tensor(lengths, dtype=torch.int32),
              max_length=24, num_rows=72, pitch=24, packed=False)
k, v = torch.randn(72, 2, 16, requires_grad=True), torch.randn(72, 2, 16, requires_grad=True)
table = torch.randn(2, 9, requires_grad=True)
for sizes in ([1, 1, 1], [4, 1, 3]):
    q = torch.randn(sum(sizes), 2, 16, requires_grad=True)
    call = Call(q=q, k=k, v=v, queries=Ragged.of(sizes), keys=keys, scale=0.3, causal=True, bias=Bias(table))
    found, wanted = attend(call), eager(call)
    torch.testing.assert_close(found, wanted)
    gradients = [torch.autograd.grad(out.square().sum(), (q, k, v, table)) for out in (found, wanted)]
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)

# Queries without a key give nothing, and ask nothing of the table.
q, none = torch.randn(2, 2, 16, requires_grad=True), torch.randn(0, 2, 16)
call = Call(q=q, k=none, v=none, queries=Ragged.of([2]), keys=Ragged.of([0]), scale=0.3, bias=Bias(table))
found = attend(call)
assert found.eq(0).all()
assert all(g.eq(0).all() for g in torch.autograd.grad(found.sum(), (q, table)))
print("same")
"""
)


def test_a_cache_with_slack_and_sequences_without_keys() -> None:
    run_interpreted(SLACK)


DROPPED = (
    START
    + """
lengths, heads, share = [9, 80, 3], 2, 0.3
layout = Ragged.of(lengths)
table = torch.randn(heads, 31, requires_grad=True)
# Equal weights over values that are the places themselves: what comes out is what was left of each weight.
eye = torch.cat([torch.eye(80)[:n] for n in lengths])[:, None].expand(-1, heads, -1).contiguous()
still = torch.zeros_like(eye)
common = {"queries": layout, "keys": layout, "scale": 0.25, "dropout": share}
blank = Call(q=still, k=still, v=eye, bias=Bias(torch.zeros(heads, 1)), **common)
left = attend(blank, torch.tensor([7]))
parts = [x * n for x, n in zip(left.split(lengths), lengths)]
for x, n in zip(parts, lengths):
    assert x[..., n:].eq(0).all()
    assert (x[..., :n].eq(0) | (x[..., :n] - 1 / (1 - share)).abs().lt(1e-4)).all()
kept = torch.cat([x[..., :n].flatten() for x, n in zip(parts, lengths)]).ne(0).float().mean()
assert 0.68 < kept < 0.72, kept
assert attend(blank, torch.tensor([7])).equal(left)
assert not attend(blank, torch.tensor([8])).equal(left)

q, k, v = (torch.randn(sum(lengths), heads, 80, requires_grad=True) for _ in range(3))
rows = []
for a, b, c, x, n in zip(*(t.split(lengths) for t in (q, k, v)), parts, lengths):
    far = (torch.arange(n)[None, :] - torch.arange(n)[:, None]).clamp(-15, 15) + 15
    scores = torch.einsum("qnh,knh->nqk", a, b).mul(0.25) + table[:, far]
    rows.append(torch.einsum("nqk,knh->qnh", scores.softmax(-1) * x[..., :n].transpose(0, 1), c))
wanted, found = torch.cat(rows), attend(Call(q=q, k=k, v=v, bias=Bias(table), **common), torch.tensor([7]))
torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
asked = torch.randn_like(found)
gradients = [torch.autograd.grad(out, (q, k, v, table), asked) for out in (found, wanted)]
torch.testing.assert_close(*gradients, atol=1e-3, rtol=1e-3)
print("same")
"""
)


def test_dropout_leaves_the_same_weights_forwards_and_backwards() -> None:
    run_interpreted(DROPPED)


@pytest.mark.parametrize(("lowest", "number", "reach"), [(-2, 5, 3), (-2, 5, 30), (-1, 2, 0), (0, 1, 2), (-3, 4, 9)])
def test_squares_are_summed_by_distance(lowest: int, number: int, reach: int) -> None:
    squares = torch.randn(number, 2, 4, 4, dtype=torch.float64)
    wanted = torch.zeros(2, 2 * reach + 1, dtype=torch.float64)
    for d in range(number):
        for i in range(4):
            for j in range(4):
                column = max(-reach, min(reach, (lowest + d) * 4 + j - i)) + reach
                wanted[:, column] += squares[d, :, i, j]
    torch.testing.assert_close(_by_distance(squares, lowest, reach), wanted)
