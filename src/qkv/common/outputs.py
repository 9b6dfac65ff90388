"""What models and objectives return."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from qkv.common.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Hidden:
    """The hidden states of the last layer, and their layout.

    Attributes:
        states: Shape: [T, D].
        layout: the layout of the tokens they belong to.
    """

    states: Tensor
    layout: Ragged

    def split(self) -> list[Tensor]:
        """Return one tensor per sequence."""
        return self.layout.split(self.states)


@dataclass(frozen=True, eq=False)
class LossOutput:
    """A loss as a sum and the number of targets it is a sum over.

    The loop divides once by the targets of a whole step, so the loss depends neither on micro-batches nor on the number
    of processes.

    Attributes:
        total: the summed loss, with gradient. Shape: [].
        count: the number of targets, without gradient. Shape: [].
        sums: other sums over the same targets, without gradient ("correct"); each divided by `count` when shown.
    """

    total: Tensor
    count: Tensor
    sums: dict[str, Tensor] = field(default_factory=dict)
