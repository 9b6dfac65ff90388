"""A whole step recorded as a CUDA graph: a small model's step is a thousand launches, and launching is what takes long.

    step 1      taken the ordinary way (the optimizer makes its state)
    step 2      recorded, then replayed
    step 3 …    the batch is copied to where the recording reads it, and the recording replayed

Shapes must not change from step to step, so batches are brought to one `StaticShape`; a batch that is larger makes it
grow, and the step is recorded anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from qkv.common.batch import move
from qkv.common.cuda.graphs import record
from qkv.common.cuda.static_shape import StaticShape
from qkv.common.ragged import Ragged
from qkv.common.tree import leaves, mapped

Step = tuple[tuple[str, ...], Tensor]  # the names of what a step gave, and the numbers


class Recorder:
    """Computes steps over batches of one shape.

    Args:
        shape: of the batches.
        gradients: from a batch on the device to its losses, leaving gradients.
        update: from the losses to a step's numbers, leaving no gradients.
        forget: drops gradients.
    """

    def __init__(
        self,
        shape: StaticShape,
        *,
        gradients: Callable[[Any], dict[str, Tensor]],
        update: Callable[[dict[str, Tensor]], Step],
        forget: Callable[[], None],
    ) -> None:
        self.shape, self.gradients, self.update, self.forget = shape, gradients, update, forget
        self.graph: torch.cuda.CUDAGraph | None = None
        self.begun = False

    def __call__(self, batch: Any, device: torch.device) -> Step:
        """Take a step over a batch that is still on the host."""
        fixed = self.shape.fill(batch)
        if fixed is None:
            self.shape, self.graph = self.shape.grown(batch), None
            fixed = self.shape.fill(batch)
        if not self.begun:
            self.begun = True
            return self.update(self.gradients(_fresh(move(fixed, device))))
        if self.graph is None:
            self._record(_fresh(move(fixed, device)))
        else:
            for place, tensor in zip(_tensors(self.batch), _tensors(fixed), strict=True):
                place.copy_(tensor.pin_memory(), non_blocking=True)
        assert self.graph is not None
        self.graph.replay()
        names, values = self.given
        return names, values.clone()  # the next replay writes over it

    def _record(self, batch: Any) -> None:
        def warm_up() -> None:
            self.gradients(_fresh(batch))
            self.forget()

        self.batch = batch
        self.graph, self.given = record(warm_up, lambda: self.update(self.gradients(_fresh(batch))))


def _fresh(batch: Any) -> Any:
    """The same tensors in new layouts: what a layout has worked out belongs to one pass."""
    return mapped(batch, lambda leaf: leaf.fresh() if isinstance(leaf, Ragged) else leaf)


def _tensors(batch: Any) -> list[Tensor]:
    return [
        tensor
        for leaf in leaves(batch)
        for tensor in ((leaf.offsets, leaf.lengths) if isinstance(leaf, Ragged) else (leaf,))
    ]
