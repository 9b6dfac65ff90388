"""The feed-forward layer: each row on its own through a wider layer and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from qkv.common.errors import unknown
from qkv.nn.dropout import Dropout
from qkv.nn.linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,  # x · Φ(x) (Hendrycks & Gimpel 2016)
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # the same paper's approximation, as in GPT-2
    "silu": F.silu,
    "tanh": F.tanh,
}
# Gated forms act(x W₀) · (x W₁) (Shazeer 2020), by the activation of the gate.
GATED: dict[str, str] = {"swiglu": "silu", "geglu": "gelu_tanh", "geglu_exact": "gelu"}


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """Look an activation up by name."""
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


class FeedForward(nn.Module):
    """down(dropout(act(up(x)))); with a gated activation, `up` computes gate and value in one product."""

    def __init__(
        self, dim: int, ff_dim: int, *, activation: str = "gelu", bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS and activation not in GATED:
            raise unknown("activation", activation, [*ACTIVATIONS, *GATED])
        self.gated = activation in GATED
        self.act = ACTIVATIONS[GATED.get(activation, activation)]
        self.up = Linear(dim, 2 * ff_dim if self.gated else ff_dim, bias=bias)
        self.down = Linear(ff_dim, dim, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: [T, D] -> [T, D]."""
        x = self.up(x)
        if self.gated:
            gate, value = x.chunk(2, dim=-1)
            return self.down(self.dropout(self.act(gate) * value))
        return self.down(self.dropout(self.act(x)))
