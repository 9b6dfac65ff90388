"""Damaged texts that an encoder-decoder repairs: hidden spans (T5) and holes (BART)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from qkv.common.batch import Pairs, Translated
from qkv.common.config import from_dict
from qkv.common.errors import UsageError
from qkv.data.corruption import corrupt_spans, infill
from qkv.data.store import Store
from qkv.objectives.translate import Translate
from qkv.tasks.base import Array, Collate, Context, shifted, tokens_of
from qkv.tasks.language import LanguageTask, left, taken

Damage = Callable[[Array, np.random.Generator], tuple[Array, Array]]


class SpansTask(LanguageTask):
    """Say hidden spans (Raffel et al. 2020)."""

    specials = "t5"
    heads = ("lm",)

    def build(self, config: Any, settings: Mapping[str, Any]) -> nn.Module:
        """Build a model that reads one text and writes another."""
        if not hasattr(config, "start_id"):
            raise UsageError("a repair needs an encoder and a decoder (presets of t5, transformer, marian or rnn)")
        return super().build(config, settings)

    def damage(self, context: Context) -> Damage:
        """Return what makes of a text what is read and what shall be said."""
        end, sentinels = context.text.specials["end"], context.text.sentinels
        if not sentinels:
            raise UsageError("span corruption needs a tokenizer with sentinels (tokenizer.specials = t5)")

        def hide(piece: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            source, target = corrupt_spans(piece, sentinels=sentinels, end_id=end, rng=rng)
            return np.append(source, end), target

        return hide

    def collate(self, store: Store, context: Context) -> Collate:
        """Damage each piece, anew for every batch."""
        windows, damage, start = self.windows(store, context), self.damage(context), context.config.start_id

        def make(rows: Array, rng: np.random.Generator) -> Translated:
            flat, lengths = windows.gather(rows)
            both = [damage(piece, rng) for piece in np.split(flat, np.cumsum(lengths)[:-1])]
            (source, read), (wanted, said) = (_joined([pair[side] for pair in both]) for side in (0, 1))
            pair = Pairs(tokens_of(source, read), tokens_of(shifted(wanted, said, start), said))
            return Translated(pair, torch.from_numpy(wanted.astype(np.int64)))

        return make

    def objective(self, settings: Mapping[str, Any]) -> Translate:
        """Cross-entropy of the spans, not smoothed unless asked."""
        return from_dict(Translate, {"smoothing": 0.0, **settings})


@dataclass(frozen=True, kw_only=True)
class Holes:
    """How much BART takes out.

    Attributes:
        rate: share of the tokens that is hidden.
        mean_length: of the spans, whose lengths are Poisson's.
    """

    rate: float = 0.3
    mean_length: float = 3.0


class DenoiseTask(SpansTask):
    """Say the whole text again, of which each hidden span is one mask whatever its length (Lewis et al. 2020).

    The mask is the tokenizer's mask token; a tokenizer of T5's kind has none, and its first sentinel serves.
    """

    def length(self, context: Context) -> int:
        """Leave a place for the end token, which every source and target gets."""
        return max(1, super().length(context) - 1)

    def damage(self, context: Context) -> Damage:
        """Put masks in place of spans; the end token is no part of them."""
        text, holes = context.text, taken(Holes, context.settings)[0]
        end, limit = text.specials["end"], self.length(context)
        mask = text.specials.get("mask", next(iter(text.sentinels), None))
        if mask is None:
            raise UsageError("denoising needs a tokenizer with a mask token or sentinels (tokenizer.specials = t5)")

        def hide(piece: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            body = piece[:-1] if piece[-1] == end else piece
            source = infill(body, mask_id=mask, rng=rng, rate=holes.rate, mean_length=holes.mean_length)
            # Spans of length 0 add masks: very many short ones could make the source too long.
            return np.append(source[:limit], end), np.append(body, end)

        return hide

    def objective(self, settings: Mapping[str, Any]) -> Translate:
        """Cross-entropy of the whole text, not smoothed unless asked."""
        return super().objective(left(Holes, Translate, settings))


def _joined(sequences: list[Array]) -> tuple[Array, Array]:
    return np.concatenate(sequences), np.array([len(ids) for ids in sequences])
