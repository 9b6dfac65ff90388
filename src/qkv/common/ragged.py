"""Packed batches: the tokens of all sequences in one row, and the sequence lengths. There is no padding.

    tokens   the cat sat | hello | two dogs
    row      [ 0   1   2 |   3   |  4   5  ]        x_TD, T = 6
    offsets  [ 0           3       4         6 ]
    lengths  [     3           1       2      ]

Only attention, recurrence and convolution use a `Ragged`; everything else works on rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Ragged:
    """Which rows of a batch belong to which sequence.

    Sequence b has the rows `offsets[b] ... offsets[b] + lengths[b] - 1`. A packed batch has no gaps between sequences.
    In a KV cache each sequence has room to grow, so its slot may be longer than the sequence.

    Attributes:
        offsets: the start of each slot, and the end of the last one. Shape: [B + 1], int32.
        lengths: the number of tokens in each sequence. Shape: [B], int32.
        max_length: an upper bound of `lengths`, known on the host.
        num_rows: the total number of rows, unused ones included.
        pitch: the distance between slots if it is the same for all (a rectangle is then a view, not a copy).
        packed: whether there are no gaps between the sequences.
        mask: `held` as an additive mask, 0 and -inf in the dtype of the queries, if a step has computed it once for all
            layers. Shape: [B, pitch].
        known_lengths: `lengths` on the host, if they are known there; see `host_lengths`.
        plans: what kernels compute for this layout, once for all layers (`nn/rectangles.py`). Copies start empty.
    """

    offsets: Tensor
    lengths: Tensor
    max_length: int
    num_rows: int
    pitch: int | None = None
    packed: bool = True
    mask: Tensor | None = None
    known_lengths: Sequence[int] | None = field(default=None, repr=False)
    plans: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(lengths: Sequence[int], device: torch.device | str | None = None) -> Ragged:
        """Return the layout of packed sequences of these lengths."""
        sizes = torch.tensor(list(lengths), dtype=torch.int32)
        offsets = torch.zeros(len(lengths) + 1, dtype=torch.int32)
        torch.cumsum(sizes, 0, out=offsets[1:])
        pitch = lengths[0] if len(lengths) and min(lengths) == max(lengths) else None
        return Ragged(
            offsets=offsets.to(device, non_blocking=True),
            lengths=sizes.to(device, non_blocking=True),
            max_length=max(lengths, default=0),
            num_rows=sum(lengths),
            pitch=pitch,
            known_lengths=list(lengths),
        )

    @staticmethod
    def equal(number: int, length: int, device: torch.device) -> Ragged:
        """Return the layout of sequences of one length, made on the device: nothing is copied from the host."""
        return Ragged(
            offsets=torch.arange(0, (number + 1) * length, length, dtype=torch.int32, device=device),
            lengths=torch.full((number,), length, dtype=torch.int32, device=device),
            max_length=length,
            num_rows=number * length,
            pitch=length,
            known_lengths=[length] * number,
        )

    def to(self, device: torch.device | str) -> Ragged:
        """Return the layout on another device. Lengths known on the host stay known."""
        known = self.host_lengths if self.lengths.device.type == "cpu" else self.known_lengths
        mask = None if self.mask is None else to_device(self.mask, device)
        offsets, lengths = to_device(self.offsets, device), to_device(self.lengths, device)
        return replace(self, offsets=offsets, lengths=lengths, mask=mask, known_lengths=known)

    def fresh(self) -> Ragged:
        """Return a layout of the same tensors without host lengths, for tensors whose contents change."""
        return replace(self, known_lengths=None)

    @property
    def num_sequences(self) -> int:
        """The number of sequences B."""
        return self.lengths.shape[0]

    @cached_property
    def host_lengths(self) -> list[int]:
        """The lengths as Python integers. Unless they are known, this synchronises with a CUDA device once."""
        return self.lengths.tolist() if self.known_lengths is None else list(self.known_lengths)

    @cached_property
    def sequence_of(self) -> Tensor:
        """The sequence each row belongs to. Shape: [T]."""
        rows = torch.arange(self.num_rows, dtype=torch.int32, device=self.offsets.device)
        # Search all offsets: the compiler of torch 2.11 loses the start of a slice.
        return (torch.searchsorted(self.offsets, rows, right=True) - 1).clamp_max(self.num_sequences - 1)

    @cached_property
    def position_of(self) -> Tensor:
        """The position of each row in its sequence, starting at 0. Shape: [T]."""
        rows = torch.arange(self.num_rows, dtype=torch.int64, device=self.offsets.device)
        return rows - self.offsets.long()[self.sequence_of]

    @cached_property
    def held(self) -> Tensor:
        """Which places of each cache slot contain a token. Shape: [B, pitch], bool."""
        return torch.arange(self.pitch or 0, device=self.lengths.device) < self.lengths.unsqueeze(1)

    @property
    def first(self) -> Tensor:
        """The first row of each sequence, or an arbitrary row if it is empty. Shape: [B]."""
        return self.offsets[:-1].long().clamp_max(self.num_rows - 1)

    @property
    def last(self) -> Tensor:
        """The last row of each sequence, or an arbitrary row if it is empty. Shape: [B]."""
        return (self.offsets[:-1].long() + self.lengths.long() - 1).clamp_min(0)

    def select(self, sequences: Tensor, lengths: Tensor) -> Ragged:
        """Keep some sequences, in ascending order, each truncated to a new length. No row moves."""
        ends = self.offsets[sequences[-1:] + 1]
        return Ragged(
            offsets=torch.cat([self.offsets[sequences], ends]),
            lengths=lengths.to(torch.int32),
            max_length=int(lengths.max()),
            num_rows=self.num_rows,
            packed=False,
        )

    def twice(self) -> Ragged:
        """Return the layout of the batch followed by a second copy of it."""
        known = self.known_lengths
        return Ragged(
            offsets=torch.cat([self.offsets, self.offsets[1:] + self.num_rows]),
            lengths=self.lengths.repeat(2),
            max_length=self.max_length,
            num_rows=2 * self.num_rows,
            pitch=self.pitch,
            packed=self.packed,
            known_lengths=None if known is None else [*known, *known],
        )

    def split(self, x: Tensor) -> list[Tensor]:
        """Split a row tensor into one tensor per sequence."""
        starts = self.offsets.tolist()
        return [x[start : start + length] for start, length in zip(starts, self.host_lengths, strict=False)]

    def mean(self, x_TD: Tensor) -> Tensor:
        """Average the rows of each sequence. Shape: [T, D] -> [B, D]."""
        if not self.packed:
            x_TD = x_TD * (self.position_of < self.lengths[self.sequence_of]).unsqueeze(-1)
        sums = x_TD.new_zeros(self.num_sequences, x_TD.shape[-1]).index_add_(0, self.sequence_of, x_TD)
        return sums / self.lengths.clamp_min(1).unsqueeze(-1)


def to_device(x: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor to a device asynchronously."""
    # A large copy from unpinned memory would wait until the device has finished all earlier work.
    pin = torch.device(device).type == "cuda" and x.device.type == "cpu"
    return (x.pin_memory() if pin else x).to(device, non_blocking=True)
