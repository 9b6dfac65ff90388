"""Language modelling from plain text: hidden tokens, next tokens, hidden spans. Documents are packed, never padded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from qkv.common.batch import Following, Masked, Pairs, Translated
from qkv.common.config import from_dict
from qkv.common.errors import UsageError
from qkv.data.corruption import corrupt_spans, mask_tokens
from qkv.data.documents import documents
from qkv.data.order import Sampler, WindowSampler
from qkv.data.packing import Windows
from qkv.data.store import Store
from qkv.objectives.language import MaskedToken, NextToken
from qkv.objectives.parts import IGNORED
from qkv.objectives.translate import Translate
from qkv.training.config import DataConfig
from qkv.training.tasks.base import Array, Collate, Context, Row, Task, chunks, shifted, tokens_of


class LanguageTask(Task):
    """Windows of a fixed number of tokens over the stream of documents, so that every batch has as many."""

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield the documents."""
        return (document.text for document in documents(list(paths), unit=data.unit))

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Tokenise whole documents; windows cut them later."""
        for chunk in chunks(documents(list(paths), unit=context.data.unit, **context.reading), 200):
            for ids in context.text.encode([document.text for document in chunk]).ids:
                yield {"ids": self.ended(ids, context)}

    def ended(self, ids: list[int], context: Context) -> list[int]:
        """Mark where a document ends, if its tokenizer does not."""
        del context
        return ids

    def windows(self, store: Store, context: Context) -> Windows:
        """See the stream as windows."""
        return Windows(store, "ids", length=min(context.data.max_length, context.config.max_length))

    def sampler(self, store: Store, context: Context, *, tokens: int, seed: int, shuffle: bool) -> Sampler:
        """Take as many windows as fit the budget."""
        windows = self.windows(store, context)
        number = max(1, min(tokens // windows.length, windows.count))
        return WindowSampler(windows.count, windows=number, seed=seed, shuffle=shuffle)


class MaskedTask(LanguageTask):
    """Say hidden tokens (Devlin et al. 2019)."""

    heads = ("mlm",)

    def collate(self, store: Store, context: Context) -> Collate:
        """Hide 15 % of the tokens, anew for every batch."""
        windows, text = self.windows(store, context), context.text
        special = np.array(sorted(set(text.specials.values())))
        plain = np.setdiff1d(np.arange(text.vocab_size), special)
        if "mask" not in text.specials:
            raise UsageError("masked tokens need a tokenizer with a mask token (tokenizer.specials = bert)")
        whole, rate = bool(context.settings.get("whole_words")), float(context.settings.get("rate", 0.15))

        def make(rows: Array, rng: np.random.Generator) -> Masked:
            flat, lengths = windows.gather(rows)
            hidden, places, wanted = mask_tokens(
                flat,
                np.isin(flat, special),
                mask_id=text.specials["mask"],
                vocab_size=text.vocab_size,
                rng=rng,
                rate=rate,
                random_ids=plain,
                word_starts=text.word_starts(flat.tolist()) if whole else None,
            )
            found = (torch.from_numpy(x.astype(np.int64)) for x in (places, wanted))
            return Masked(tokens_of(hidden, lengths), *found)

        return make

    def objective(self, settings: Mapping[str, Any]) -> MaskedToken:
        """Cross-entropy of the hidden tokens."""
        return from_dict(MaskedToken, {k: v for k, v in settings.items() if k not in ("whole_words", "rate")})


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
            del rng
            flat, lengths = windows.gather(rows)
            wanted = np.append(flat[1:], IGNORED).astype(np.int64)
            wanted[np.cumsum(lengths) - 1] = IGNORED
            return Following(tokens_of(flat, lengths), torch.from_numpy(wanted))

        return make

    def objective(self, settings: Mapping[str, Any]) -> NextToken:
        """Cross-entropy of the next token."""
        return from_dict(NextToken, settings)


class SpansTask(LanguageTask):
    """Say hidden spans (Raffel et al. 2020)."""

    specials = "t5"
    heads = ("lm",)

    def collate(self, store: Store, context: Context) -> Collate:
        """Hide spans of each piece, anew for every batch."""
        windows, text = self.windows(store, context), context.text
        end, start, sentinels = text.specials["end"], context.config.start_id, text.sentinels
        if not sentinels:
            raise UsageError("span corruption needs a tokenizer with sentinels (tokenizer.specials = t5)")

        def make(rows: Array, rng: np.random.Generator) -> Translated:
            flat, lengths = windows.gather(rows)
            pieces = np.split(flat, np.cumsum(lengths)[:-1])
            both = [corrupt_spans(piece, sentinels=sentinels, end_id=end, rng=rng) for piece in pieces]
            source, target = [np.append(pair[0], end) for pair in both], [pair[1] for pair in both]
            sizes = [np.array([len(ids) for ids in side]) for side in (source, target)]
            wanted = np.concatenate(target)
            read = tokens_of(shifted(wanted, sizes[1], start), sizes[1])
            pair = Pairs(tokens_of(np.concatenate(source), sizes[0]), read)
            return Translated(pair, torch.from_numpy(wanted.astype(np.int64)))

        return make

    def objective(self, settings: Mapping[str, Any]) -> Translate:
        """Cross-entropy of the spans, not smoothed unless asked."""
        return from_dict(Translate, {"smoothing": 0.0, **settings})
