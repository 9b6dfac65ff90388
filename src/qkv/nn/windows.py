"""Attention within windows of patches: the rows of a window are a sequence of their own (Liu et al. 2021).

    patches, in windows of 2       the rows of an image
    a a b b c                      class token | a a a a | b b b b | c c | d d | e e | f
    a a b b c
    d d e e f                      no padding: windows at the edge are smaller

Every second layer, and the last one, attends to the whole image, so that information passes between windows (Li et al.
2022, "Exploring plain vision transformer backbones for object detection"). Windows are not shifted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged
from qkv.nn.attention import PassContext
from qkv.nn.block import Block
from qkv.nn.positions import Placement
from qkv.nn.stack import Stack


class WindowedStack(Stack):
    """A stack whose even layers attend within windows. Its steps are not recorded: windows are copied from the host.

    Args:
        blocks: the layers.
        grid: patches on a side of the image.
        window: patches on a side of a window.
        leading: rows before the patches: the class token and, in DeiT, the distillation token. In layers with windows,
            they are a sequence of their own.
        options: see `Stack`.
    """

    fixed_shapes = False

    def __init__(self, blocks: Sequence[Block], *, grid: int, window: int, leading: int, **options: Any) -> None:
        super().__init__(blocks, **options)
        if window < 1:
            raise UsageError(f"a window needs at least 1 patch on a side, got {window}")
        self.order, self.lengths = windows_of(grid, window, leading)

    def layer(self, number: int, x: Tensor, context: PassContext, placement: Placement) -> Tensor:
        """Run one layer, over windows or over whole images. Shape: [T, D] -> [T, D]."""
        if number % 2 or number == self.depth - 1:
            return super().layer(number, x, context, placement)
        images = context.place.queries.num_sequences
        order = torch.tensor(self.order, device=x.device)
        rows = (torch.arange(images, device=x.device).unsqueeze(1) * len(order) + order).flatten()
        windows = PassContext.of(Ragged.of(self.lengths * images, x.device))
        found = super().layer(number, x.index_select(0, rows), windows, placement)
        return torch.empty_like(found).index_copy(0, rows, found)


def windows_of(grid: int, window: int, leading: int) -> tuple[list[int], list[int]]:
    """Return the rows of an image, window by window after the leading ones, and the number of rows in each."""
    order, lengths = list(range(leading)), [leading]
    for top in range(0, grid, window):
        for left in range(0, grid, window):
            down, right = range(top, min(top + window, grid)), range(left, min(left + window, grid))
            order += [leading + y * grid + x for y in down for x in right]
            lengths.append(len(down) * len(right))
    return order, lengths
