"""A gated convolution in the place of self-attention (Gehring et al. 2017).

x_TD ─► the width tokens around each one, or up to it ─► linear ─► value · sigmoid(gate)

With a cache, the inputs of a layer are kept like keys, so that a step sees the tokens before it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from qkv.common.errors import UsageError
from qkv.nn.attention import PassContext
from qkv.nn.linear import Linear
from qkv.nn.positions import Placement


class ConvolutionMixer(nn.Module):
    """Mixes each token with its neighbours; outside the sequence there is zero, which also tells where it begins.

    Args:
        dim: D.
        width: how many tokens a layer sees, the token itself included; odd unless it is causal.
        causal: a token sees no later token.
    """

    fixed_shapes = False  # steps with it are not recorded
    narrows = False  # it computes all rows

    def __init__(self, dim: int, *, width: int, causal: bool = False) -> None:
        super().__init__()
        if width < 1 or (width % 2 == 0 and not causal):
            raise UsageError(f"width must be an odd number from 1 on, got {width}")
        self.width, self.before = width, width - 1 if causal else width // 2
        self.linear = Linear(width * dim, 2 * dim)

    def forward(self, x: Tensor, context: PassContext, placement: Placement, layer: int) -> Tensor:
        """Shape: [T, D] -> [T, D]."""
        del placement
        queries, keys = context.place.queries, context.place.keys
        held = x if context.cache is None else context.cache.write(layer, x.unsqueeze(1), x.unsqueeze(1))[0].squeeze(1)
        places = context.place.positions.unsqueeze(1) + torch.arange(self.width, device=x.device) - self.before
        owner = queries.sequence_of
        inside = (places >= 0) & (places < keys.lengths[owner].unsqueeze(1))
        rows = (keys.offsets[owner].unsqueeze(1) + places).clamp(0, len(held) - 1)
        value, gate = self.linear((held[rows] * inside.unsqueeze(-1)).flatten(1)).chunk(2, dim=-1)
        return value * gate.sigmoid()
