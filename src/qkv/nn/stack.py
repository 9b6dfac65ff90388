"""A stack of layers, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from torch import Tensor, nn

from qkv.common.rows import Rows
from qkv.nn.attention import PassContext
from qkv.nn.block import Block
from qkv.nn.positions import NoPosition, Placement
from qkv.nn.tap import Tap


class Engine(Protocol):
    """Another way to compute all layers of a stack."""

    def __call__(self, x: Tensor, context: PassContext) -> Tensor | None:
        """Return the states after the last layer, or None if this pass needs the layers. Shape: [T, D] -> [T, D]."""
        ...


class Stack(nn.Module):
    """Runs `depth` layers over the blocks, in turn; fewer blocks than layers share their weights (Lan et al. 2020).

    The tap sees the states before the first layer and after each layer, before the final norm.
    """

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
        self.engine: Engine | None = None
        self.tap = Tap()

    def forward(self, x: Tensor, context: PassContext, rows: Rows | None = None) -> Tensor:
        """Shape: [T, D] -> [T, D]; with `rows`, [needed rows, D], and the last layer computes no others if it can."""
        if self.engine is not None and (states := self.engine(x, context)) is not None:
            return self.norm(states if rows is None else states.index_select(0, rows.index))
        narrow = rows is not None and self._narrows(context)
        placements = self.position.place(context.place, self.depth)
        self.tap.begin(self.depth)
        self.tap(x)
        for layer, placement in enumerate(placements):
            if narrow and layer == self.depth - 1:
                context = replace(context, rows=rows)
            x = self.layer(layer, x, context, placement)
            self.tap(x)
        return self.norm(x if rows is None or narrow else x.index_select(0, rows.index))

    def layer(self, number: int, x: Tensor, context: PassContext, placement: Placement) -> Tensor:
        """Run one layer."""
        return self.blocks[number * len(self.blocks) // self.depth](x, context, placement, number)

    def _narrows(self, context: PassContext) -> bool:
        """Whether the last layer can skip the rows that are not needed."""
        layout = context.place.queries
        # Rectangles cannot hold a sequence with queries but no keys. On CUDA, small models wait for launches, not for
        # products, and recorded steps have such sequences (StaticShape): there all rows are computed.
        possible = not layout.offsets.is_cuda and min(layout.host_lengths, default=0) > 0
        plain = type(self.position) is NoPosition and context.cache is None and context.memory is None
        last: Any = self.blocks[-1]
        return possible and plain and not self.tap.needs_all_rows and bool(last.attention.part.narrows)
