"""Language modelling from plain text: hidden tokens, next tokens. Documents are packed, never padded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from qkv.common.batch import Following, Masked, Tokens
from qkv.common.config import from_dict
from qkv.common.errors import UsageError, unknown
from qkv.data.config import DataConfig
from qkv.data.corruption import mask_tokens
from qkv.data.documents import documents
from qkv.data.order import Sampler, WindowSampler, mix
from qkv.data.packing import Staged, TwoWindows, Windows
from qkv.data.store import Store
from qkv.objectives.language import MaskedToken, NextToken
from qkv.objectives.parts import IGNORED
from qkv.tasks.base import Array, Collate, Context, Row, Task, chunks, tokens_of

C = TypeVar("C")
Hide = Callable[[Array, np.random.Generator], tuple[Array, Tensor, Tensor]]


class LanguageTask(Task):
    """Windows of a fixed number of tokens over the stream of documents, so that every batch has as many.

    With `data.short` they are short first and long later; validation reads short ones throughout, so that its losses
    can be compared. Learned positions that short windows never had would not be learned in what is left of a run, so
    every other piece of text begins at any position where it fits (SHAPE, Kiyono et al. 2021), the others at the first.
    """

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield the documents."""
        return (document.text for document in documents(list(paths), **data.document, bad=data.bad))

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Tokenise whole documents; windows cut them later."""
        for chunk in chunks(documents(list(paths), **context.data.document, **context.reading), 200):
            for ids in context.text.encode([document.text for document in chunk]).ids:
                yield {"ids": self.ended(ids, context)}

    def ended(self, ids: list[int], context: Context) -> list[int]:
        """Mark where a document ends, if its tokenizer does not."""
        del context
        return ids

    def length(self, context: Context) -> int:
        """Return the tokens of a long window."""
        return int(min(context.data.max_length, context.config.max_length))

    def windows(self, store: Store, context: Context) -> TwoWindows:
        """See the stream as windows; without `data.short`, and where it is not shorter, all are long."""
        long = Windows(store, "ids", length=self.length(context))
        short = min(context.data.short or long.length, long.length)
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
        rate: share of the tokens that is asked for.
        whole_words: hide words, not pieces of them.
        pairs: read pairs of sentences that follow each other, and not windows; nothing is asked about them.
    """

    rate: float = 0.15
    whole_words: bool = False
    pairs: bool = False


class MaskedTask(LanguageTask):
    """Say hidden tokens (Devlin et al. 2019).

    Every piece of a text begins and ends as a text does that is read later, [CLS] ... [SEP] (Liu et al. 2019, section
    4.2): where a window cut it, these stand in place of its first and its last token.
    """

    heads = ("mlm",)

    def collate(self, store: Store, context: Context) -> Collate:
        """Hide tokens, anew for every batch."""
        windows, hide = self.windows(store, context), hiding(context)

        def make(rows: Array, rng: np.random.Generator) -> Masked:
            flat, lengths = windows.gather(rows)
            hidden, places, wanted = hide(framed(flat, lengths, context.text.specials), rng)
            return Masked(self.placed(hidden, lengths, windows, context, rng), places, wanted)

        return make

    def objective(self, settings: Mapping[str, Any]) -> MaskedToken:
        """Cross-entropy of the hidden tokens."""
        return from_dict(MaskedToken, left(Hiding, MaskedToken, settings))


class CausalTask(LanguageTask):
    """Say the next token (Radford et al. 2018)."""

    specials = "gpt"
    heads = ("lm",)

    def ended(self, ids: list[int], context: Context) -> list[int]:
        """GPT's tokenizer adds nothing by itself: the end of a document is a token too."""
        end = context.text.specials.get("end")
        return ids if end is None or ids[-1:] == [end] else [*ids, end]

    def collate(self, store: Store, context: Context) -> Collate:
        """Ask for the token after each; after the last of a piece nothing is asked."""
        windows = self.windows(store, context)

        def make(rows: Array, rng: np.random.Generator) -> Following:
            flat, lengths = windows.gather(rows)
            wanted = np.append(flat[1:], IGNORED).astype(np.int64)
            wanted[np.cumsum(lengths) - 1] = IGNORED
            tokens = self.placed(flat, lengths, windows, context, rng)
            return Following(tokens, torch.from_numpy(wanted))

        return make

    def objective(self, settings: Mapping[str, Any]) -> NextToken:
        """Cross-entropy of the next token."""
        return from_dict(NextToken, settings)


def framed(flat: Array, lengths: Array, specials: Mapping[str, int]) -> Array:
    """Put the first and the last special token at the ends of pieces; one of less than three tokens stays as it is."""
    if "cls" not in specials or "sep" not in specials:
        return flat
    last = np.cumsum(lengths) - 1
    long, found = lengths > 2, flat.copy()
    found[(last - lengths + 1)[long]], found[last[long]] = specials["cls"], specials["sep"]
    return found


def taken(cls: type[C], settings: Mapping[str, Any]) -> tuple[C, dict[str, Any]]:
    """Take the keys of a config out of a recipe's table; return the config and the rest of the table."""
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    mine = {key: value for key, value in settings.items() if key in names}
    return from_dict(cls, mine), {key: value for key, value in settings.items() if key not in names}


def left(mine: type[Any], objective: type[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a task that reads a table into a config of its own leaves to its objective."""
    names = [field.name for cls in (mine, objective) for field in fields(cls)]
    for key in settings:
        if key not in names:
            raise unknown("key of [objective]", key, names)
    return taken(mine, settings)[1]


def hiding(context: Context) -> Hide:
    """Return what hides tokens of a row, but never special ones: the damaged row, the places and what stood there."""
    text, settings = context.text, taken(Hiding, context.settings)[0]
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
