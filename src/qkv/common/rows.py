"""Some rows of a batch: those that a head needs, if it does not need all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.common.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Rows:
    """Which rows are needed, and which sequences they belong to. Nothing here waits for the device.

    Attributes:
        index: the rows, sequence after sequence. Shape: [M].
        layout: how many of them each sequence has.
    """

    index: Tensor
    layout: Ragged

    @staticmethod
    def first(layout: Ragged) -> Rows:
        """Select the first row of each sequence; for an empty one, an arbitrary row."""
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
        """Select rows in rising order, each once (or, if more are given than there are, some of them again)."""
        number = len(rows)
        offsets = torch.searchsorted(rows, layout.offsets.long(), out_int32=True)
        found = Ragged(
            offsets=offsets,
            lengths=offsets.diff(),
            max_length=layout.max_length if number <= layout.num_rows else number,
            num_rows=number,
        )
        return Rows(rows, found)
