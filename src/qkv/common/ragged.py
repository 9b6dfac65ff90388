"""The one idea: a batch is one row of real tokens and the lengths of its sequences. No padding.

    tokens   the cat sat | hello | two dogs
    row      [ 0   1   2 |   3   |  4   5  ]        x_TD, T = 6
    offsets  [ 0           3       4         6 ]
    lengths  [     3           1       2      ]

Only attention, recurrence and convolution look at a `Ragged`; everything else works on rows.
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

    Sequence b holds the rows `offsets[b] ... offsets[b] + lengths[b] - 1`. In a packed batch there are no gaps
    between sequences; in a key/value cache each has room to grow, so its slot may be longer than its length.

    Attributes:
        offsets: where each slot starts, and where the last one ends. Shape: [B + 1], int32.
        lengths: real tokens of each sequence. Shape: [B], int32.
        max_length: an upper bound of `lengths`, known on the host.
        num_rows: rows in all, slack included.
        pitch: the distance between slots if it is the same for all (a rectangle is then a view, not a copy).
        packed: whether there are no gaps between the sequences.
        mask: `held` as an additive mask, 0 and -inf in the precision of the queries, if a step made it once for all
            layers. Shape: [B, pitch].
        known_lengths: `lengths` on the host, if they are known there; see `host_lengths`.
        plans: what kernels compute for this layout, once for all layers (`nn/rectangles.py`). A copy starts empty.
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
        """Lay out packed sequences of these lengths."""
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

    def to(self, device: torch.device | str) -> Ragged:
        """Return the layout on another device; the host keeps the lengths it knows."""
        known = self.host_lengths if self.lengths.device.type == "cpu" else self.known_lengths
        mask = None if self.mask is None else to_device(self.mask, device)
        offsets, lengths = to_device(self.offsets, device), to_device(self.lengths, device)
        return replace(self, offsets=offsets, lengths=lengths, mask=mask, known_lengths=known)

    def fresh(self) -> Ragged:
        """Return a layout over the same tensors that assumes nothing about their contents, for tensors that change."""
        return replace(self, known_lengths=None)

    @property
    def num_sequences(self) -> int:
        """B."""
        return self.lengths.shape[0]

    @cached_property
    def host_lengths(self) -> list[int]:
        """The lengths as Python numbers (on CUDA this waits for the device, once, unless they are known)."""
        return self.lengths.tolist() if self.known_lengths is None else list(self.known_lengths)

    @cached_property
    def sequence_of(self) -> Tensor:
        """The sequence each row belongs to. Shape: [T]."""
        rows = torch.arange(self.num_rows, dtype=torch.int32, device=self.offsets.device)
        # Over all offsets: the compiler of torch 2.11 loses the start of a slice.
        return (torch.searchsorted(self.offsets, rows, right=True) - 1).clamp_max(self.num_sequences - 1)

    @cached_property
    def position_of(self) -> Tensor:
        """The position of each row in its sequence, from 0. Shape: [T]."""
        rows = torch.arange(self.num_rows, dtype=torch.int64, device=self.offsets.device)
        return rows - self.offsets.long()[self.sequence_of]

    @cached_property
    def held(self) -> Tensor:
        """Where a slot of a cache holds a token. Shape: [B, pitch], bool."""
        return torch.arange(self.pitch or 0, device=self.lengths.device) < self.lengths.unsqueeze(1)

    @property
    def first(self) -> Tensor:
        """The first row of each sequence; for an empty one, an arbitrary row. Shape: [B]."""
        return self.offsets[:-1].long().clamp_max(self.num_rows - 1)

    @property
    def last(self) -> Tensor:
        """The last row of each sequence; for an empty one, an arbitrary row. Shape: [B]."""
        return (self.offsets[:-1].long() + self.lengths.long() - 1).clamp_min(0)

    def select(self, sequences: Tensor, lengths: Tensor) -> Ragged:
        """Keep some sequences, in rising order, each cut to a new length; no row moves."""
        ends = self.offsets[sequences[-1:] + 1]
        return Ragged(
            offsets=torch.cat([self.offsets[sequences], ends]),
            lengths=lengths.to(torch.int32),
            max_length=int(lengths.max()),
            num_rows=self.num_rows,
            packed=False,
        )

    def twice(self) -> Ragged:
        """Lay out the same sequences two times, one after the other."""
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
        """Cut a row tensor into one tensor per sequence."""
        starts = self.offsets.tolist()
        return [x[start : start + length] for start, length in zip(starts, self.host_lengths, strict=False)]

    def mean(self, x_TD: Tensor) -> Tensor:
        """Average the rows of each sequence. Shape: [T, D] -> [B, D]."""
        if not self.packed:
            x_TD = x_TD * (self.position_of < self.lengths[self.sequence_of]).unsqueeze(-1)
        sums = x_TD.new_zeros(self.num_sequences, x_TD.shape[-1]).index_add_(0, self.sequence_of, x_TD)
        return sums / self.lengths.clamp_min(1).unsqueeze(-1)


def to_device(x: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor to a device without waiting for it."""
    # A large copy from memory that is not pinned would wait until the device has finished all earlier work.
    pin = torch.device(device).type == "cuda" and x.device.type == "cpu"
    return (x.pin_memory() if pin else x).to(device, non_blocking=True)
