"""How far apart two tokens are: how many layers it takes until the last token depends on the first one."""

from __future__ import annotations

import torch
from torch import Tensor

from qkv.common.ragged import Ragged
from qkv.insight.layer_kinds import Kind
from qkv.nn.recurrent import TimeMajor

DIM = 8
SEED = 0


def sequential_steps(kind: Kind, length: int) -> int:
    """Count the steps of one layer that must wait for each other: one a token in a recurrent layer, otherwise one."""
    return len(TimeMajor.of(Ragged.of([length])).sizes) if kind.is_recurrent else 1


def path_length(kind: Kind, length: int) -> int:
    """Count the hops from the last token to the first, by the gradients of real layers.

    Within a recurrent layer the path has a hop for each step; elsewhere a layer is one hop. A layer's gradient tells
    which of its inputs the tokens reached so far depend on.
    """
    torch.manual_seed(SEED)
    reached = torch.zeros(length, dtype=torch.bool)
    reached[-1] = True
    if kind.is_recurrent:
        assert bool(_inputs_of(kind, reached, 0)[0])
        return sequential_steps(kind, length) - 1
    for depth in range(length):
        reached = reached | _inputs_of(kind, reached, depth)
        if bool(reached[0]):
            return depth + 1
    return length


def _inputs_of(kind: Kind, outputs: Tensor, depth: int) -> Tensor:
    """Return which rows of the input some rows of a layer's output depend on. Shape: [n] -> [n], bool."""
    layer = kind.build(DIM, depth).double()
    x = torch.randn(len(outputs), DIM, dtype=torch.float64, requires_grad=True)
    y = layer(x, Ragged.of([len(outputs)]))
    chosen = y[outputs]
    (gradient,) = torch.autograd.grad((chosen * torch.randn_like(chosen)).sum(), x)
    return gradient.abs().sum(-1) > 0
