"""Shared parts of language modelling tasks: documents packed into windows, and token masking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRows
from qkv.data.corruption import mask_tokens
from qkv.data.documents import documents, split_single
from qkv.data.examples import Document
from qkv.data.order import Sampler, WindowSampler, mix
from qkv.data.packing import Staged, TwoWindows, Windows
from qkv.data.phrasebook.named import is_phrasebook, named_documents
from qkv.data.store import Store
from qkv.tasks.base import Array, Context, Row, Task
from qkv.tasks.batches import limit_of, tokens_of
from qkv.tasks.exam import chunks
from qkv.tasks.facts import Rule

CHUNK = 200  # documents tokenised at a time
Hide = Callable[[Array, np.random.Generator], tuple[Array, Tensor, Tensor]]


class DocumentTask(Task):
    """A task that reads running text."""

    rules: ClassVar[Mapping[str, Rule]] = {}
    held_out_unit: ClassVar[str] = "documents"

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Document]:
        """Read documents, or the text of the built-in phrasebook ("phrasebook:train:20000").

        If the training files hold only one document, its end is a document to hold out.
        """
        if len(paths) == 1 and is_phrasebook(paths[0]):
            return named_documents(paths[0], self.data.unit)
        found = documents(list(paths), **self.data.document, bad=self.data.bad, skipped=skipped)
        whole = bool(self.data.valid) or tuple(paths) != tuple(self.data.train)
        return found if whole else split_single(found, self.data.held_out)

    def texts(self, example: Document) -> Iterable[str]:
        """Return the document."""
        return (example.text,)

    def key(self, example: Document) -> str:
        """Hold out whole documents."""
        return example.text

    def side(self, example: Document) -> bool | None:
        """Hold out the end of a text that is the only document."""
        return example.held_out


class WindowTask(DocumentTask):
    """Windows of a fixed number of tokens over the stream of documents, so that all batches have the same size.

    With `data.short`, windows are short first and long later; validation always reads short windows, so that its losses
    are comparable. The steps with long windows are too few to learn the positions that only they have. Therefore every
    other piece of text starts at a random position where it fits (SHAPE, Kiyono et al. 2021), and the others at 0.
    """

    optional_keys: ClassVar[frozenset[str]] = frozenset({"data.short"})
    reads_windows: ClassVar[bool] = True

    def rows(self, examples: Iterable[Document], context: Context) -> Iterator[Row]:
        """Tokenise whole documents; they are split into windows later."""
        for chunk in chunks(examples, CHUNK):
            for ids in context.text.encode([document.text for document in chunk]).ids:
                yield {"ids": self.ended(ids, context)}

    def ended(self, ids: list[int], context: Context) -> list[int]:
        """Mark the end of a document if the tokenizer does not."""
        del context
        return ids

    def length(self, context: Context) -> int:
        """Return the number of tokens of a long window."""
        return limit_of(context, self.data.max_length)

    def windows(self, store: Store, context: Context) -> TwoWindows:
        """Return windows over the stream; all are long unless `data.short` is set and shorter.

        If the whole text is shorter than a window, it is the only one.
        """
        long = Windows(store, "ids", length=min(self.length(context), max(2, len(store.values("ids")))))
        short = min(self.data.short or long.length, long.length)
        return TwoWindows(replace(long, length=short), long)

    def placed(
        self, flat: Array, lengths: Array, windows: TwoWindows, context: Context, rng: np.random.Generator
    ) -> Tokens:
        """Make a batch of pieces; with two window lengths, some of them start at a random position."""
        learned = context.config.position.name == "learned"
        if not learned or windows.short.length == windows.long.length:
            return tokens_of(flat, lengths)
        starts = rng.integers(0, windows.long.length - lengths + 1) * rng.integers(0, 2, len(lengths))
        before = np.cumsum(lengths) - lengths
        return tokens_of(flat, lengths, positions=np.arange(len(flat)) + np.repeat(starts - before, lengths))

    def sampler(self, store: Store, context: Context, *, tokens: int, seed: int, shuffle: bool) -> Sampler:
        """Sample as many windows as fit the token budget.

        Without shuffling, every token is read if the task scores whole texts, so that validation and `qkv evaluate`
        give the same number.
        """

        def order(windows: Windows, seed: int) -> WindowSampler:
            if not windows.count:
                there = len(store.values("ids"))
                raise UsageError(f"the {store.folder.name} text has {there:,} tokens, too few to learn from")
            number = max(1, min(tokens // windows.length, windows.count))
            whole = self.slides and not shuffle
            shape = {"length": windows.length, "tokens": windows.tokens}
            total = windows.total if whole else windows.count
            return WindowSampler(total, windows=number, seed=seed, shuffle=shuffle, **shape)

        found, wanted = self.windows(store, context), self.length(context)
        if found.long.length < wanted:
            size = found.long.length
            context.say(f"the {store.folder.name} text has {size:,} tokens: its window is that long, not {wanted:,}")
        first = order(found.short, seed)
        if not shuffle or found.short.length == found.long.length:
            return first
        return Staged(first, order(found.long, mix(seed, found.long.length)), found.short.tokens)


@dataclass(frozen=True, kw_only=True)
class Hiding:
    """Settings of token masking.

    Attributes:
        rate: the share of tokens to mask and predict.
        whole_words: mask whole words instead of word pieces.
        pairs: read pairs of consecutive sentences instead of windows, without a loss on the pairs.
    """

    rate: float = 0.15
    whole_words: bool = False
    pairs: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise UsageError(f"objective.rate must be above 0 and at most 1, got {self.rate:g}")


def framed(flat: Array, lengths: Array, specials: Mapping[str, int]) -> Array:
    """Replace the first and last token of each piece with [CLS] and [SEP]; pieces below three tokens are unchanged."""
    if "cls" not in specials or "sep" not in specials:
        return flat
    last = np.cumsum(lengths) - 1
    long, found = lengths > 2, flat.copy()
    found[(last - lengths + 1)[long]], found[last[long]] = specials["cls"], specials["sep"]
    return found


def hiding(settings: Hiding, context: Context) -> Hide:
    """Return a function that masks random tokens, never special ones, and returns the row, positions and targets."""
    text = context.text
    if "mask" not in text.specials:
        raise UsageError("masking needs a tokenizer with a mask token (tokenizer.specials = bert)")
    special = np.array(sorted(set(text.specials.values())))
    plain = np.setdiff1d(np.arange(text.vocab_size), special)

    def hide(flat: Array, rng: np.random.Generator) -> tuple[Array, Tensor, Tensor]:
        hidden, places, wanted = mask_tokens(
            flat,
            np.isin(flat, special),
            mask_id=text.specials["mask"],
            vocab_size=text.vocab_size,
            rng=rng,
            rate=settings.rate,
            random_ids=plain,
            word_starts=text.word_starts(flat.tolist()) if settings.whole_words else None,
        )
        return hidden, torch.from_numpy(places.astype(np.int64)), torch.from_numpy(wanted.astype(np.int64))

    return hide
