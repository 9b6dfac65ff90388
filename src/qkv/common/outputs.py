"""What a model gives back."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from qkv.common.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Hidden:
    """The states of the last layer and where each sequence lies in them.

    Attributes:
        states: Shape: [T, D].
        layout: the layout of the tokens that gave them.
    """

    states: Tensor
    layout: Ragged

    def split(self) -> list[Tensor]:
        """Return one tensor per sequence."""
        return self.layout.split(self.states)
