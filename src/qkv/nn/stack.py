"""Layers one after the other, and what they share."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from qkv.nn.attention import Frame
from qkv.nn.block import Block
from qkv.nn.positions import NoPosition


class Stack(nn.Module):
    """Runs `depth` layers over the blocks, in turn; fewer blocks than layers share their weights (Lan et al. 2020)."""

    def __init__(
        self,
        blocks: Sequence[Block],
        *,
        depth: int | None = None,
        position: NoPosition | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.depth = depth or len(blocks)
        self.position = position or NoPosition()
        self.norm = norm or nn.Identity()

    def forward(self, x: Tensor, frame: Frame) -> Tensor:
        """Shape: [T, D] -> [T, D]."""
        placements = self.position.place(frame.place, self.depth)
        for layer, placement in enumerate(placements):
            x = self.blocks[layer * len(self.blocks) // self.depth](x, frame, placement, layer)
        return self.norm(x)
