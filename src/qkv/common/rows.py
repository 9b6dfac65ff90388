"""A subset of the rows of a batch, for a head that does not need all of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.common.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Rows:
    """Selected rows and the sequences they belong to. Nothing here synchronises with the device.

    Attributes:
        index: the selected rows, in sequence order. Shape: [M].
        layout: the layout of the selected rows.
    """

    index: Tensor
    layout: Ragged

    @staticmethod
    def first(layout: Ragged) -> Rows:
        """Select the first row of each sequence, or an arbitrary row if the sequence is empty."""
        number, device = layout.num_sequences, layout.offsets.device
        each_one = Ragged(
            offsets=torch.arange(number + 1, dtype=torch.int32, device=device),
            lengths=torch.ones(number, dtype=torch.int32, device=device),
            max_length=1,
            num_rows=number,
            pitch=1,
        )
        return Rows(layout.first, each_one)

    @staticmethod
    def at(layout: Ragged, rows: Tensor) -> Rows:
        """Select rows in ascending order. They are distinct unless there are more of them than rows in the batch."""
        number = len(rows)
        offsets = torch.searchsorted(rows, layout.offsets.long(), out_int32=True)
        found = Ragged(
            offsets=offsets,
            lengths=offsets.diff(),
            max_length=layout.max_length if number <= layout.num_rows else number,
            num_rows=number,
        )
        return Rows(rows, found)
