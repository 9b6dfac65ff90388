"""What a model is given: token batches and image batches, as types."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor

from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged

IGNORED = -100  # a target that is not asked for


@dataclass(frozen=True, eq=False)
class Tokens:
    """One row of token ids and its layout.

    Attributes:
        ids: Shape: [T].
        layout: where each sequence lies.
        segments: which of the sentences each token belongs to (BERT), or None for all in the first. Shape: [T].
        positions: the learned position each token takes, or None for its place in its sequence. Shape: [T].
    """

    ids: Tensor
    layout: Ragged
    segments: Tensor | None = None
    positions: Tensor | None = None

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


@dataclass(frozen=True, eq=False)
class Following:
    """Tokens whose next token is asked for (causal language modelling).

    Attributes:
        tokens: what is read.
        wanted: the token after each, -100 where nothing is asked. Shape: [T].
    """

    tokens: Tokens
    wanted: Tensor


@dataclass(frozen=True, eq=False)
class Masked:
    """Tokens of which some were hidden, and what they were.

    Attributes:
        tokens: what is read.
        rows: the rows that are asked for. Shape: [M].
        wanted: the tokens that stood there. Shape: [M].
        pairs: for each sequence, 0 if its second sentence follows its first and 1 if not, or None. Shape: [B].
        real: how many rows there are before the fillers, or None for all. Shape: [].
    """

    tokens: Tokens
    rows: Tensor
    wanted: Tensor
    pairs: Tensor | None = None
    real: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Translated:
    """Sources, what the decoder reads, and what it shall say.

    Attributes:
        pairs: source and target; each target begins with the start token.
        wanted: the target one step later, ending with the end token. Shape: [T of the target].
    """

    pairs: Pairs
    wanted: Tensor


@dataclass(frozen=True, eq=False)
class Labelled:
    """Inputs and their labels.

    Attributes:
        inputs: sequences or images.
        labels: classes [B], any of several classes [B, C] as 0 and 1, numbers [B] as floats, or a class for each token
            [T]; -100 where nothing is asked.
    """

    inputs: Tokens | Images
    labels: Tensor


@dataclass(frozen=True, eq=False)
class Spans:
    """Questions with their contexts, and where the answer stands.

    Attributes:
        tokens: question and context as two segments.
        starts: the answer's first token, counted within its sequence; 0 for no answer. Shape: [B].
        ends: its last token. Shape: [B].
    """

    tokens: Tokens
    starts: Tensor
    ends: Tensor


@dataclass(frozen=True, eq=False)
class SentencePairs:
    """Two texts that belong together, row by row.

    Attributes:
        first: Shape: B sequences.
        second: Shape: B sequences.
        scores: how alike they are, or None where each is simply the other's match. Shape: [B].
    """

    first: Tokens
    second: Tokens
    scores: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Words:
    """Words and the words around them, for word vectors.

    Attributes:
        inputs: the words that are read. Shape: [B] (skip-gram) or [B, context] with -1 for none (CBOW).
        outputs: the words that are asked for. Shape: [B].
        noise: words that are not there. Shape: [B, negatives].
    """

    inputs: Tensor
    outputs: Tensor
    noise: Tensor


@dataclass(frozen=True, eq=False)
class Counted(Words):
    """Pairs of words and how often they meet; there is no noise.

    Attributes:
        counts: above 0. Shape: [B].
    """

    counts: Tensor

    @staticmethod
    def of(inputs: Tensor, outputs: Tensor, counts: Tensor) -> Counted:
        """Make a batch of pairs."""
        return Counted(inputs, outputs, outputs.new_empty(len(outputs), 0), counts)


T = TypeVar("T")


def move(batch: T, device: torch.device | str) -> T:
    """Return a batch on another device; what a layout has worked out stays worked out."""
    if isinstance(batch, Tensor):
        # From memory that is not pinned, a large copy waits until the device has done all before it.
        pin = torch.device(device).type == "cuda" and batch.device.type == "cpu"
        return (batch.pin_memory() if pin else batch).to(device, non_blocking=True)  # type: ignore[return-value]
    if isinstance(batch, Ragged):
        moved = dataclasses.replace(batch, offsets=move(batch.offsets, device), lengths=move(batch.lengths, device))
        if batch.lengths.device.type == "cpu":
            moved.__dict__["host_lengths"] = batch.host_lengths
        return moved
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        fields = {field.name: move(getattr(batch, field.name), device) for field in dataclasses.fields(batch)}
        return dataclasses.replace(batch, **fields)
    if isinstance(batch, dict):
        return {name: move(part, device) for name, part in batch.items()}  # type: ignore[return-value]
    return batch


def layouts(batch: object) -> list[Ragged]:
    """List the layouts within a batch."""
    if isinstance(batch, Ragged):
        return [batch]
    if dataclasses.is_dataclass(batch):
        return [layout for field in dataclasses.fields(batch) for layout in layouts(getattr(batch, field.name))]
    return [layout for part in batch.values() for layout in layouts(part)] if isinstance(batch, dict) else []


UNITS = {"tok": "tokens", "img": "images", "words": "words"}


def size(batch: object) -> tuple[int, str]:
    """Say how much a batch holds and of what: tokens, images, or words asked for (one of `UNITS`)."""
    if isinstance(batch, Words):
        return len(batch.outputs), "words"
    inputs = batch.inputs if isinstance(batch, Labelled) else batch
    if isinstance(inputs, Images):
        return len(inputs.pixels), "img"
    return sum(layout.num_rows for layout in layouts(batch)), "tok"


def _row(sequences: Sequence[Sequence[int]], device: torch.device | str | None) -> Tensor:
    return torch.tensor(list(chain.from_iterable(sequences)), dtype=torch.int64).to(device, non_blocking=True)
