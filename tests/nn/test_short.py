"""The kernel for short sequences, run by Triton's interpreter on a CPU, against the formula."""

from __future__ import annotations

import pytest

from tests.interpreted import run_interpreted

pytest.importorskip("triton", reason="needs Triton: make test-kernels")

CHECK = """
import torch
from qkv.common.ragged import Ragged
from qkv.nn import short
from qkv.nn.kernels import Call, eager

torch.manual_seed(0)
cases = [([3, 7, 1, 0, 5], [3, 7, 1, 0, 5], True), ([3, 7, 1], [5, 2, 9], False), ([17, 20], [17, 33], False),
         ([2, 1], [6, 9], True)]
for q_lengths, k_lengths, causal in cases:
    queries, keys = Ragged.of(q_lengths), Ragged.of(k_lengths)
    rows = torch.randn(sum(q_lengths), 3, 2, 16), torch.randn(sum(k_lengths), 3, 2, 16)
    q, k, v = rows[0][:, 0].requires_grad_(), rows[1][:, 1].requires_grad_(), rows[1][:, 2].requires_grad_()
    layout = (queries.offsets, keys.offsets, queries.lengths, keys.lengths, queries.max_length, keys.max_length)
    found = short.attend(q, k, v, *layout, 0.25, causal)
    wanted = eager(Call(q=q, k=k, v=v, queries=queries, keys=keys, scale=0.25, causal=causal))
    asked = torch.randn_like(found)
    torch.testing.assert_close(found, wanted)
    gradients = [torch.autograd.grad(out, (q, k, v), asked) for out in (found, wanted)]
    torch.testing.assert_close(*gradients)
empty = Ragged.of([2]), Ragged.of([0])
layout = (empty[0].offsets, empty[1].offsets, empty[0].lengths, empty[1].lengths, 2, 1)
nothing = short.attend(torch.randn(2, 2, 16), torch.randn(0, 2, 16), torch.randn(0, 2, 16), *layout, 0.25, False)
assert nothing.eq(0).all()
print("same")
"""


def test_values_and_gradients_are_those_of_the_formula() -> None:
    run_interpreted(CHECK)
