"""What a model is given: token batches and image batches, as types."""

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

IGNORED = -100  # a target that is not asked for
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
        """How much the batch holds, as a person would count it."""
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
        """Bring the batch to a static shape, with nothing asked of the fillers.

        Args:
            shape: the numbers of rows, sequences and targets that the batch shall have.
            layouts: its layouts with fillers, in the order of `layouts(batch)`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no static shape")


@dataclass(frozen=True, eq=False)
class Tokens(Batch):
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
class Images(Batch):
    """A batch of images of one size. Shape: [B, C, height, width]."""

    pixels: Tensor

    @property
    def size(self) -> Size:
        """Images."""
        return Size(len(self.pixels), "img")

    def twice(self) -> Images:
        """Return the same images two times in one batch."""
        return Images(self.pixels.repeat(2, 1, 1, 1))


@dataclass(frozen=True, eq=False)
class Pairs(Batch):
    """Source and target sequences, one of each per example."""

    source: Tokens
    target: Tokens


@dataclass(frozen=True, eq=False)
class Following(Batch):
    """Tokens whose next token is asked for (causal language modelling).

    Attributes:
        tokens: what is read.
        wanted: the token after each, -100 where nothing is asked. Shape: [T].
    """

    tokens: Tokens
    wanted: Tensor
    is_static = True

    def filled(self, shape: StaticShape, layouts: Sequence[Ragged]) -> Following:
        """Ask for no token after a filler."""
        return Following(self.tokens.padded(layouts[0]), pad(self.wanted, shape.rows[0], IGNORED))


@dataclass(frozen=True, eq=False)
class Masked(Batch):
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
    is_static = True

    @property
    def num_targets(self) -> int:
        """Hidden tokens."""
        return len(self.rows)

    def filled(self, shape: StaticShape, layouts: Sequence[Ragged]) -> Masked:
        """Read more rows than are hidden, up to the shape's number, and ask nothing of them."""
        pairs = None if self.pairs is None else pad(self.pairs, shape.sequences, IGNORED)
        free = np.ones(shape.rows[0], dtype=bool)  # rows that are not hidden: each is read once, if they are enough
        free[self.rows.numpy()] = False
        more = np.resize(free.nonzero()[0], shape.targets - len(self.rows))
        rows, real = torch.cat([self.rows, torch.from_numpy(more)]), torch.tensor(len(self.tokens.ids))
        wanted = pad(self.wanted, shape.targets, IGNORED)
        return Masked(self.tokens.padded(layouts[0]), rows, wanted, pairs, real)


@dataclass(frozen=True, eq=False)
class Translated(Batch):
    """Sources, what the decoder reads, and what it shall say.

    Attributes:
        pairs: source and target; each target begins with the start token.
        wanted: the target one step later, ending with the end token. Shape: [T of the target].
    """

    pairs: Pairs
    wanted: Tensor
    is_static = True

    def filled(self, shape: StaticShape, layouts: Sequence[Ragged]) -> Translated:
        """Ask for no token after a filler."""
        source, target = self.pairs.source.padded(layouts[0]), self.pairs.target.padded(layouts[1])
        return Translated(Pairs(source, target), pad(self.wanted, shape.rows[1], IGNORED))


@dataclass(frozen=True, eq=False)
class Labelled(Batch):
    """Inputs and their labels.

    Attributes:
        inputs: sequences or images.
        labels: classes [B], any of several classes [B, C] as 0 and 1, numbers [B] as floats, or a class for each token
            [T]; -100 where nothing is asked.
    """

    inputs: Tokens | Images
    labels: Tensor

    @property
    def size(self) -> Size:
        """Tokens or images of the inputs."""
        return self.inputs.size

    @property
    def is_static(self) -> bool:
        """Texts, unless labels of tokens and of sequences cannot be told apart by their number."""
        return isinstance(self.inputs, Tokens) and self.inputs.layout.max_length > 1

    def filled(self, shape: StaticShape, layouts: Sequence[Ragged]) -> Labelled:
        """Ask for no label of a filler."""
        assert isinstance(self.inputs, Tokens)
        length = shape.rows[0] if len(self.labels) == len(self.inputs.ids) else shape.sequences
        return Labelled(self.inputs.padded(layouts[0]), pad(self.labels, length, IGNORED))


@dataclass(frozen=True, eq=False)
class Spans(Batch):
    """Questions with their contexts, and where the answer stands.

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
        """Ask for no answer in a filler."""
        starts, ends = (pad(side, shape.sequences, IGNORED) for side in (self.starts, self.ends))
        return Spans(self.tokens.padded(layouts[0]), starts, ends)


@dataclass(frozen=True, eq=False)
class SentencePairs(Batch):
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
class Words(Batch):
    """Words and the words around them, for word vectors.

    Attributes:
        inputs: the words that are read. Shape: [B] (skip-gram) or [B, context] with -1 for none (CBOW).
        outputs: the words that are asked for. Shape: [B].
        noise: words that are not there. Shape: [B, negatives].
    """

    inputs: Tensor
    outputs: Tensor
    noise: Tensor

    @property
    def size(self) -> Size:
        """Words that are asked for."""
        return Size(len(self.outputs), "words")


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
    """Return a batch on another device."""
    return mapped(batch, lambda leaf: leaf.to(device) if isinstance(leaf, Ragged) else to_device(leaf, device))


def layouts(batch: object) -> list[Ragged]:
    """List the layouts within a batch."""
    return [leaf for leaf in leaves(batch) if isinstance(leaf, Ragged)]


def size(batch: object) -> Size:
    """Say how much a batch holds; one that is no `Batch` (a dict of batches) holds the tokens of its layouts."""
    return batch.size if isinstance(batch, Batch) else _tokens(batch)


def pad(x: Tensor, length: int, value: int) -> Tensor:
    """Lengthen the first dimension."""
    return torch.cat([x, x.new_full((length - len(x), *x.shape[1:]), value)])


def _tokens(batch: object) -> Size:
    return Size(sum(layout.num_rows for layout in layouts(batch)), "tok")


def _row(sequences: Sequence[Sequence[int]], device: torch.device | str | None) -> Tensor:
    return torch.tensor(list(chain.from_iterable(sequences)), dtype=torch.int64).to(device, non_blocking=True)
