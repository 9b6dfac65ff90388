"""What a model is given: token batches and image batches, as types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Tokens:
    """One row of token ids and its layout.

    Attributes:
        ids: Shape: [T].
        layout: where each sequence lies.
        segments: which of the sentences each token belongs to (BERT), or None for all in the first. Shape: [T].
    """

    ids: Tensor
    layout: Ragged
    segments: Tensor | None = None

    @staticmethod
    def of(
        sequences: Sequence[Sequence[int]],
        *,
        segments: Sequence[Sequence[int]] | None = None,
        vocab_size: int | None = None,
        device: torch.device | str | None = None,
    ) -> Tokens:
        """Pack lists of ids, checked where `vocab_size` is given."""
        if vocab_size is not None or not all(map(len, sequences)) or not sequences:
            check(sequences, "id", vocab_size)
        if segments is not None and [len(s) for s in segments] != [len(s) for s in sequences]:
            raise UsageError("segments must have the same lengths as the ids")
        return Tokens(
            ids=_row(sequences, device),
            layout=Ragged.of([len(sequence) for sequence in sequences], device),
            segments=None if segments is None else _row(segments, device),
        )


def check(sequences: Sequence[Sequence[int]], what: str, size: int | None) -> None:
    """Stop what cannot be a batch: nothing in it, an empty sequence, a number outside 0 ... size - 1."""
    if not sequences:
        raise UsageError("the batch is empty: at least one sequence of ids is needed")
    for number, sequence in enumerate(sequences):
        if len(sequence) == 0:
            raise UsageError(f"sequence {number} is empty: every sequence needs at least one {what}")
        if size is not None and not 0 <= min(sequence) <= max(sequence) < size:
            bad = next(i for i in sequence if not 0 <= i < size)
            place = "the vocabulary" if what == "id" else f"the model's {what}s"
            raise UsageError(f"sequence {number} holds {what} {bad}, outside {place} (0 to {size - 1})")


@dataclass(frozen=True, eq=False)
class Images:
    """A batch of images of one size. Shape: [B, C, height, width]."""

    pixels: Tensor


@dataclass(frozen=True, eq=False)
class Pairs:
    """Source and target sequences, one of each per example."""

    source: Tokens
    target: Tokens


def _row(sequences: Sequence[Sequence[int]], device: torch.device | str | None) -> Tensor:
    return torch.tensor(list(chain.from_iterable(sequences)), dtype=torch.int64).to(device, non_blocking=True)
