"""A whole training step recorded as a CUDA graph: in a small model's step, launching kernels takes most of the time.

    step 1      run as usual (the optimizer makes its state)
    step 2      recorded, then replayed
    step 3 …    the batch is copied into the recorded one, and the graph replayed

Shapes must not change from step to step, so batches are brought to one `StaticShape`. A larger batch makes the shape
grow, and the step is recorded again. A batch that no shape can hold takes an ordinary step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from qkv.common.batch import move
from qkv.common.cuda.graphs import record
from qkv.common.cuda.static_shape import Shape
from qkv.common.ragged import Ragged
from qkv.common.tree import leaves, mapped

Step = tuple[tuple[str, ...], Tensor]  # the names of a step's results, and their values


class Recorder:
    """Runs training steps over batches of one shape.

    Args:
        shape: of the batches.
        gradients: computes the losses of a batch on the device, and the gradients.
        plain: the same without the compiler, which would compile again for a batch of another shape.
        update: moves the weights, and returns the step's results.
        forget: drops the gradients.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        gradients: Callable[[Any], dict[str, Tensor]],
        plain: Callable[[Any], dict[str, Tensor]],
        update: Callable[[dict[str, Tensor]], Step],
        forget: Callable[[], None],
    ) -> None:
        self.shape, self.gradients, self.plain, self.update, self.forget = shape, gradients, plain, update, forget
        self.graph: torch.cuda.CUDAGraph | None = None
        self.begun = False

    def __call__(self, batch: Any, device: torch.device) -> Step:
        """Run a step on a batch that is still on the host."""
        fixed = self.shape.fill(batch)
        if fixed is None and (grown := self.shape.grown(batch)) != self.shape:
            self.shape, self.graph = grown, None
            fixed = self.shape.fill(batch)
        if fixed is None:
            return self.update(self.plain(_fresh(move(batch, device))))
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
        return names, values.clone()  # the next replay overwrites it

    def _record(self, batch: Any) -> None:
        def warm_up() -> None:
            self.gradients(_fresh(batch))
            self.forget()

        self.batch = batch
        self.graph, self.given = record(warm_up, lambda: self.update(self.gradients(_fresh(batch))))


def _fresh(batch: Any) -> Any:
    """The same tensors in new layouts: what a layout has cached belongs to one pass."""
    return mapped(batch, lambda leaf: leaf.fresh() if isinstance(leaf, Ragged) else leaf)


def _tensors(batch: Any) -> list[Tensor]:
    return [
        tensor
        for leaf in leaves(batch)
        for tensor in ((leaf.offsets, leaf.lengths) if isinstance(leaf, Ragged) else (leaf,))
    ]
