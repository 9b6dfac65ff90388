"""Positions of patches in two dimensions: sinusoidal ones, and learned ones for another image size."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.errors import UsageError
from qkv.nn.positions import SinusoidalPosition


class GridPosition(SinusoidalPosition):
    """sin and cos of the row in one half of the channels, of the column in the other (Chen et al. 2021, MoCo v3).

    The class token and the distillation token get zeros.
    """

    def __init__(self, dim: int, *, grid: int, leading: int) -> None:
        super().__init__(dim)
        if dim % 4:
            raise UsageError(f"2-D sinusoidal positions need a dim that is a multiple of 4, got {dim}")
        self.grid, self.leading = grid, leading
        self.side = SinusoidalPosition(dim // 2)

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """Shape: [T] -> [T, D]; every position is below `length`."""
        if len(positions) > length:  # each position once, then looked up
            return self(torch.arange(length, device=positions.device), length)[positions]
        place = (positions - self.leading).clamp_min(0)
        row, column = place // self.grid, place % self.grid
        found = torch.cat([self.side(row, length), self.side(column, length)], dim=-1)
        return found * (positions >= self.leading).unsqueeze(1)


def resized_table(table: Tensor, leading: int, grid: int) -> Tensor:
    """Interpolate learned positions for a grid of another size, with cubic splines (Dosovitskiy et al. 2021, 3.2).

    Shape: [leading + old grid², D] -> [leading + grid², D].
    """
    old = round((len(table) - leading) ** 0.5)
    if old == grid:
        return table
    tokens, patches = table[:leading], table[leading:].float()
    square = patches.t().reshape(1, -1, old, old)
    found = F.interpolate(square, (grid, grid), mode="bicubic", align_corners=False)
    return torch.cat([tokens, found.flatten(2)[0].t().to(table.dtype)])
