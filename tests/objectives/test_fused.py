"""The kernels for wide rows, run by Triton's interpreter on a CPU, against torch's own losses."""

from __future__ import annotations

import pytest

from tests.interpreted import run_interpreted

pytest.importorskip("triton", reason="needs Triton: make test-kernels")

CHECK = """
import torch
import torch.nn.functional as F
from qkv.objectives import r_drop, entropy, fused

torch.manual_seed(0)
for width, smoothing in ((1030, 0.0), (4096, 0.1), (5003, 0.1)):
    every = torch.randint(width, (12,))  # a strided view of other targets must be read as one
    padded = torch.randn(6, -(-width // 64) * 64) * 3  # rows that are further apart than they are wide
    mine = padded[:, :width].requires_grad_()
    other = mine.detach().clone().requires_grad_()
    wanted = every[::2]
    wanted.copy_(mine.argmax(-1))
    wanted[2:4] = torch.tensor([7, -100])
    with torch.no_grad():
        mine[0, wanted[0] + 1 :] = mine[0, wanted[0]]  # the first of many
        other.copy_(mine)
    nll, mean, right = entropy._fused(mine, wanted)
    asked = wanted >= 0
    found = ((1 - smoothing) * nll + smoothing * mean)[asked].sum()
    expected = F.cross_entropy(other, wanted, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(found, expected)
    assert right.tolist() == [True, True, False, False, True, True]
    apart = fused.distance(mine)[0]
    torch.testing.assert_close(apart, r_drop._plain(other))
    (found + (apart * torch.tensor([1.0, 0.0, 2.0])).sum()).backward()
    (expected + (r_drop._plain(other) * torch.tensor([1.0, 0.0, 2.0])).sum()).backward()
    torch.testing.assert_close(mine.grad, other.grad, atol=1e-6, rtol=1e-4)
print("same")
"""


def test_values_and_gradients_are_those_of_the_formula() -> None:
    run_interpreted(CHECK)
