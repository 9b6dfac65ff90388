"""Batches: what a model and its objective are given, as types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged, to_device
from qkv.common.tree import leaves, mapped

if TYPE_CHECKING:
    from typing import Self

    from qkv.common.cuda.static_shape import StaticShape

IGNORED = -100  # a target that does not count, as in torch
UNITS = {"tok": "tokens", "img": "images", "words": "words"}


class Size(NamedTuple):
    """How much a batch holds, and of what: one of `UNITS`."""

    amount: int
    unit: str


class Batch:
    """Base class of batches: each kind is a frozen dataclass of tensors, layouts and other batches.

    A kind of your own needs no more than its fields. To let its steps be recorded as CUDA graphs, make `is_static` true
    and write `filled`.
    """

    @property
    def size(self) -> Size:
        """How much the batch holds."""
        return _tokens(self)

    @property
    def num_targets(self) -> int:
        """The targets that `filled` brings to a fixed number; 0 where rows or sequences are the targets."""
        return 0

    @property
    def is_static(self) -> bool:
        """Whether the batch can be brought to a static shape: fillers change no real example's loss."""
        return False

    def filled(self, shape: StaticShape, layouts: Sequence[Ragged]) -> Self:
        """Bring the batch to a static shape; fillers have no targets.

        Args:
            shape: the numbers of rows, sequences and targets to reach.
            layouts: its layouts with fillers, in the order of `layouts(batch)`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no static shape")


@dataclass(frozen=True, eq=False)
class Tokens(Batch):
    """One row of token ids and its layout.

    Attributes:
        ids: Shape: [T].
        layout: which rows belong to which sequence.
        segments: the sentence each token belongs to (BERT), or None if all belong to the first. Shape: [T].
        positions: the learned position of each token, or None for its place in its sequence. Shape: [T].
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
        """Pack lists of ids. With `vocab_size`, every id is checked."""
        if vocab_size is not None or not all(map(len, sequences)) or not sequences:
            check(sequences, "id", vocab_size)
        if segments is not None and [len(s) for s in segments] != [len(s) for s in sequences]:
            raise UsageError("segments must have the same lengths as the ids")
        return Tokens(
            ids=_row(sequences, device),
            layout=Ragged.of([len(sequence) for sequence in sequences], device),
            segments=None if segments is None else _row(segments, device),
        )

    def twice(self) -> Tokens:
        """Return the same sequences two times in one batch, so that dropout differs between the two (R-Drop)."""
        segments, positions = (None if row is None else row.repeat(2) for row in (self.segments, self.positions))
        return Tokens(self.ids.repeat(2), self.layout.twice(), segments, positions)

    def padded(self, layout: Ragged) -> Tokens:
        """Return the same tokens, with zeros up to the rows of a longer layout."""
        segments, positions = (
            None if row is None else pad(row, layout.num_rows, 0) for row in (self.segments, self.positions)
        )
        return Tokens(pad(self.ids, layout.num_rows, 0), layout, segments, positions)


def check(sequences: Sequence[Sequence[int]], what: str, size: int | None) -> None:
    """Raise an error for an empty batch, an empty sequence, or a number outside 0 ... size - 1."""
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
class Images(Batch):
    """A batch of images of one size.

    Attributes:
        pixels: the numbers that a model reads, or the bytes that an objective turns into them. Shape: [B, C, H, W].
        draws: the random numbers that augmentation uses, or None if the images stay as they are. Shape: [B, columns].
    """

    pixels: Tensor
    draws: Tensor | None = None

    @property
    def size(self) -> Size:
        """Images."""
        return Size(len(self.pixels), "img")

    def twice(self) -> Images:
        """Return the same images two times in one batch."""
        return Images(self.pixels.repeat(2, 1, 1, 1), None if self.draws is None else self.draws.repeat(2, 1))


@dataclass(frozen=True, eq=False)
class Pairs(Batch):
    """Source and target sequences, one of each per example."""

    source: Tokens
    target: Tokens


@dataclass(frozen=True, eq=False)
class Following(Batch):
    """Tokens and the token after each of them (causal language modelling).

    Attributes:
        tokens: the input.
        wanted: the targets, the token after each; -100 where there is none. Shape: [T].
    """

    tokens: Tokens
    wanted: Tensor
    is_static = True

    def filled(self, shape: StaticShape, layouts: Sequence[Ragged]) -> Following:
        """Give fillers no next token."""
        return Following(self.tokens.padded(layouts[0]), pad(self.wanted, shape.rows[0], IGNORED))


@dataclass(frozen=True, eq=False)
class Masked(Batch):
    """Tokens of which some are masked, and the original ones.

    Attributes:
        tokens: the input.
        rows: the rows that are masked. Shape: [M].
        wanted: the targets, their original tokens. Shape: [M].
        pairs: for each sequence, 0 if its second sentence follows its first and 1 if not, or None. Shape: [B].
        real: the number of rows before the fillers, or None if there are none. Shape: [].
    """

    tokens: Tokens
    rows: Tensor
    wanted: Tensor
    pairs: Tensor | None = None
    real: Tensor | None = None
    is_static = True

    @property
    def num_targets(self) -> int:
        """Masked tokens."""
        return len(self.rows)

    def filled(self, shape: StaticShape, layouts: Sequence[Ragged]) -> Masked:
        """Add rows without a target, up to the shape's number of targets."""
        pairs = None if self.pairs is None else pad(self.pairs, shape.sequences, IGNORED)
        free = np.ones(shape.rows[0], dtype=bool)  # rows that are not masked: each is added once, if they are enough
        free[self.rows.numpy()] = False
        more = np.resize(free.nonzero()[0], shape.targets - len(self.rows))
        rows, real = torch.cat([self.rows, torch.from_numpy(more)]), torch.tensor(len(self.tokens.ids))
        wanted = pad(self.wanted, shape.targets, IGNORED)
        return Masked(self.tokens.padded(layouts[0]), rows, wanted, pairs, real)


@dataclass(frozen=True, eq=False)
class Translated(Batch):
    """Sources, the decoder's input, and its targets.

    Attributes:
        pairs: source and target; each target begins with the start token.
        wanted: the targets, one step later than the input and ending with the end token. Shape: [T of the target].
    """

    pairs: Pairs
    wanted: Tensor
    is_static = True

    def filled(self, shape: StaticShape, layouts: Sequence[Ragged]) -> Translated:
        """Give fillers no next token."""
        source, target = self.pairs.source.padded(layouts[0]), self.pairs.target.padded(layouts[1])
        return Translated(Pairs(source, target), pad(self.wanted, shape.rows[1], IGNORED))


@dataclass(frozen=True, eq=False)
class Labelled(Batch):
    """Inputs and their labels.

    Attributes:
        inputs: sequences or images.
        labels: classes [B], any of several classes [B, C] as 0 and 1, numbers [B] as floats, or a class for each token
            [T]; -100 where there is none.
    """

    inputs: Tokens | Images
    labels: Tensor

    @property
    def size(self) -> Size:
        """Tokens or images of the inputs."""
        return self.inputs.size

    @property
    def is_static(self) -> bool:
        """Whether these are images, or texts whose labels say by their number if they belong to tokens or sequences."""
        return isinstance(self.inputs, Images) or self.inputs.layout.max_length > 1

    def filled(self, shape: StaticShape, layouts: Sequence[Ragged]) -> Labelled:
        """Give fillers no label."""
        assert isinstance(self.inputs, Tokens)
        length = shape.rows[0] if len(self.labels) == len(self.inputs.ids) else shape.sequences
        return Labelled(self.inputs.padded(layouts[0]), pad(self.labels, length, IGNORED))


@dataclass(frozen=True, eq=False)
class Spans(Batch):
    """Questions with their contexts, and the place of the answer.

    Attributes:
        tokens: question and context as two segments.
        starts: the answer's first token, counted within its sequence; 0 for no answer. Shape: [B].
        ends: its last token. Shape: [B].
    """

    tokens: Tokens
    starts: Tensor
    ends: Tensor
    is_static = True

    def filled(self, shape: StaticShape, layouts: Sequence[Ragged]) -> Spans:
        """Give fillers no answer."""
        starts, ends = (pad(side, shape.sequences, IGNORED) for side in (self.starts, self.ends))
        return Spans(self.tokens.padded(layouts[0]), starts, ends)


@dataclass(frozen=True, eq=False)
class SentencePairs(Batch):
    """Pairs of texts that belong together.

    Attributes:
        first: Shape: B sequences.
        second: Shape: B sequences.
        scores: how similar they are, or None if each is simply the other's match. Shape: [B].
    """

    first: Tokens
    second: Tokens
    scores: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Words(Batch):
    """Words and the words around them, for word vectors.

    Attributes:
        inputs: the input words. Shape: [B] (skip-gram) or [B, context] with -1 for none (CBOW).
        outputs: the target words. Shape: [B].
        noise: negative samples, words that are not there. Shape: [B, negatives].
    """

    inputs: Tensor
    outputs: Tensor
    noise: Tensor

    @property
    def size(self) -> Size:
        """Target words."""
        return Size(len(self.outputs), "words")


@dataclass(frozen=True, eq=False)
class Counted(Words):
    """Pairs of words and how often they occur together; there is no noise.

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
    """Return a batch on another device."""
    return mapped(batch, lambda leaf: leaf.to(device) if isinstance(leaf, Ragged) else to_device(leaf, device))


def layouts(batch: object) -> list[Ragged]:
    """List the layouts within a batch."""
    return [leaf for leaf in leaves(batch) if isinstance(leaf, Ragged)]


def size(batch: object) -> Size:
    """Return how much a batch holds. What is not a `Batch` (a dict of batches) holds the tokens of its layouts."""
    return batch.size if isinstance(batch, Batch) else _tokens(batch)


def pad(x: Tensor, length: int, value: int) -> Tensor:
    """Lengthen the first dimension."""
    return torch.cat([x, x.new_full((length - len(x), *x.shape[1:]), value)])


def _tokens(batch: object) -> Size:
    return Size(sum(layout.num_rows for layout in layouts(batch)), "tok")


def _row(sequences: Sequence[Sequence[int]], device: torch.device | str | None) -> Tensor:
    return torch.tensor(list(chain.from_iterable(sequences)), dtype=torch.int64).to(device, non_blocking=True)
