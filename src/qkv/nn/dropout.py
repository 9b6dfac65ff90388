"""Dropout (Srivastava et al. 2014): in training, a share of the numbers is set to zero and the rest is scaled up.

Stochastic depth (Huang et al. 2016) drops a whole part of a layer for a share of the sequences.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.common.ragged import Ragged


class Dropout(nn.Dropout):
    """torch's dropout, with fewer random numbers on the CPU."""

    def forward(self, x: Tensor) -> Tensor:
        """Shape: [...] -> [...]."""
        return drop(x, self.p) if self.training else x


def drop(x: Tensor, p: float) -> Tensor:
    """Set a share p of x to zero and divide the rest by 1 - p.

    torch draws a random number for each element, which on the CPU takes longer than a norm or an activation. Here each
    draw of 64 bits serves four elements, so p is exact to 2^-16.
    """
    if x.device.type != "cpu" or not 0 < p < 1:
        return F.dropout(x, p)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    quarters = draws.view(torch.int16)[: x.numel()].view(x.shape)  # even in -2^15 ... 2^15 - 1
    lowest = min(round(p * 2**16), 2**16 - 1) - 2**15
    kept = torch.empty(x.shape, dtype=x.dtype)
    return x * torch.ge(quarters, lowest, out=kept).mul_(1 / (1 - p))


def kept_sequences(layout: Ragged, p: float, like: Tensor) -> Tensor:
    """Return 0 for the rows of dropped sequences and 1 / (1 - p) for the others. Shape: [T, 1]."""
    kept = torch.rand(layout.num_sequences, device=like.device) >= p
    return (kept.to(like.dtype) / (1 - p))[layout.sequence_of].unsqueeze(1)
