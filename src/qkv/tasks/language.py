"""What language models of every kind share: documents packed into windows, and hidden tokens."""

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
from qkv.data.documents import documents
from qkv.data.examples import Document
from qkv.data.order import Sampler, WindowSampler, mix
from qkv.data.packing import Staged, TwoWindows, Windows
from qkv.data.store import Store
from qkv.tasks.base import Array, Context, Row, Task
from qkv.tasks.batches import limit_of, tokens_of
from qkv.tasks.exam import chunks

CHUNK = 200  # documents that are tokenised at a time
Hide = Callable[[Array, np.random.Generator], tuple[Array, Tensor, Tensor]]


class DocumentTask(Task):
    """A task that reads running text."""

    held_out_unit: ClassVar[str] = "documents"

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Document]:
        """Read documents."""
        return documents(list(paths), **self.data.document, bad=self.data.bad, skipped=skipped)

    def texts(self, example: Document) -> Iterable[str]:
        """Return the document."""
        return (example.text,)

    def key(self, example: Document) -> str:
        """Hold out whole documents."""
        return example.text


class WindowTask(DocumentTask):
    """Windows of a fixed number of tokens over the stream of documents, so that every batch has as many.

    With `data.short` they are short first and long later; validation reads short ones throughout, so that its losses
    can be compared. Learned positions that short windows never had would not be learned in what is left of a run, so
    every other piece of text begins at any position where it fits (SHAPE, Kiyono et al. 2021), the others at the first.
    """

    optional_keys: ClassVar[frozenset[str]] = frozenset({"data.short"})
    reads_windows: ClassVar[bool] = True

    def rows(self, examples: Iterable[Document], context: Context) -> Iterator[Row]:
        """Tokenise whole documents; windows cut them later."""
        for chunk in chunks(examples, CHUNK):
            for ids in context.text.encode([document.text for document in chunk]).ids:
                yield {"ids": self.ended(ids, context)}

    def ended(self, ids: list[int], context: Context) -> list[int]:
        """Mark where a document ends, if its tokenizer does not."""
        del context
        return ids

    def length(self, context: Context) -> int:
        """Return the tokens of a long window."""
        return limit_of(context, self.data.max_length)

    def windows(self, store: Store, context: Context) -> TwoWindows:
        """See the stream as windows; without `data.short`, and where it is not shorter, all are long."""
        long = Windows(store, "ids", length=self.length(context))
        short = min(self.data.short or long.length, long.length)
        return TwoWindows(replace(long, length=short), long)

    def placed(
        self, flat: Array, lengths: Array, windows: TwoWindows, context: Context, rng: np.random.Generator
    ) -> Tokens:
        """Make a batch of pieces, some of them moved where windows come in two lengths."""
        learned = context.config.position.name == "learned"
        if not learned or windows.short.length == windows.long.length:
            return tokens_of(flat, lengths)
        starts = rng.integers(0, windows.long.length - lengths + 1) * rng.integers(0, 2, len(lengths))
        before = np.cumsum(lengths) - lengths
        return tokens_of(flat, lengths, positions=np.arange(len(flat)) + np.repeat(starts - before, lengths))

    def sampler(self, store: Store, context: Context, *, tokens: int, seed: int, shuffle: bool) -> Sampler:
        """Take as many windows as fit the budget."""

        def order(windows: Windows, seed: int) -> WindowSampler:
            if not windows.count:
                raise UsageError(
                    f"the {store.folder.name} text has {len(store.values('ids')):,} tokens, fewer than one window of "
                    f"{windows.length}: give more text, or lower data.max_length"
                )
            number = max(1, min(tokens // windows.length, windows.count))
            return WindowSampler(windows.count, windows=number, seed=seed, shuffle=shuffle)

        found = self.windows(store, context)
        first = order(found.short, seed)
        if not shuffle or found.short.length == found.long.length:
            return first
        return Staged(first, order(found.long, mix(seed, found.long.length)))


@dataclass(frozen=True, kw_only=True)
class Hiding:
    """How tokens are hidden.

    Attributes:
        rate: share of the tokens that is hidden and predicted.
        whole_words: hide whole words, not pieces of them.
        pairs: read pairs of sentences that follow each other instead of windows, without a next-sentence objective.
    """

    rate: float = 0.15
    whole_words: bool = False
    pairs: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise UsageError(f"objective.rate must be above 0 and at most 1, got {self.rate:g}")


def framed(flat: Array, lengths: Array, specials: Mapping[str, int]) -> Array:
    """Put the first and the last special token at the ends of pieces; one of less than three tokens stays as it is."""
    if "cls" not in specials or "sep" not in specials:
        return flat
    last = np.cumsum(lengths) - 1
    long, found = lengths > 2, flat.copy()
    found[(last - lengths + 1)[long]], found[last[long]] = specials["cls"], specials["sep"]
    return found


def hiding(settings: Hiding, context: Context) -> Hide:
    """Return what hides tokens of a row, but never special ones: the damaged row, the places and the hidden tokens."""
    text = context.text
    if "mask" not in text.specials:
        raise UsageError("masked tokens need a tokenizer with a mask token (tokenizer.specials = bert)")
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
