"""Causal convolution along a sequence: the third way to mix tokens, beside recurrence and attention.

A layer of width W and dilation d sees W tokens, d apart; layers with d = 1, W, W², ... see W^layers tokens, so the path
between far tokens is logarithmic (Vaswani et al. 2017, table 1; Kalchbrenner et al. 2017).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from qkv.common.ragged import Ragged
from qkv.nn.linear import Linear


class CausalConvolution(nn.Module):
    """y_t = bias + Σ_w W_w x_{t - w · dilation} within each sequence; before its first token there is zero."""

    def __init__(self, dim: int, out_dim: int, *, width: int, dilation: int = 1) -> None:
        super().__init__()
        self.width, self.dilation = width, dilation
        self.linear = Linear(width * dim, out_dim)

    def forward(self, x: Tensor, layout: Ragged) -> Tensor:
        """Shape: [T, D] -> [T, out]."""
        back = torch.arange(self.width, device=x.device) * self.dilation
        rows = torch.arange(len(x), device=x.device).unsqueeze(1) - back
        inside = layout.position_of.unsqueeze(1) >= back
        seen = x[rows.clamp_min(0)] * inside.unsqueeze(-1)
        return self.linear(seen.flatten(1))
