"""Denoising: restore a text with masked spans and its sentences in another order (BART, Lewis et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qkv.common.errors import UsageError
from qkv.data.corruption import infill, permute_sentences
from qkv.tasks.base import Array, Context
from qkv.tasks.spans import Damage, SequenceTask, SpanSettings, without
from qkv.tokenizers.text import TextTokenizer

STOPS = (".", "!", "?", "…", "。")


@dataclass(frozen=True, kw_only=True)
class DenoiseSettings(SpanSettings):
    """Settings of the noise and the loss.

    Attributes:
        rate: the share of tokens to mask.
        mean_length: the mean length of a masked span; lengths are Poisson-distributed.
        permute: put the sentences of each piece of text in random order before masking. A sentence ends with a token
            that ends in a full stop, a question or an exclamation mark.
    """

    rate: float = 0.3
    permute: bool = True


class DenoiseTask(SequenceTask):
    """One mask stands for each span: the tokenizer's own or, for a T5 tokenizer, which has none, the first sentinel."""

    Settings: ClassVar[type[Any]] = DenoiseSettings

    def length(self, context: Context) -> int:
        """Leave room for the end token, which every source and target gets."""
        return max(1, super().length(context) - 1)

    def damage(self, context: Context) -> Damage:
        """Permute sentences, then replace spans with masks; the end token is never masked."""
        text, settings = context.text, self.settings
        end, limit = text.specials["end"], self.length(context)
        mask = text.specials.get("mask", next(iter(text.sentinels), None))
        if mask is None:
            raise UsageError("denoising needs a tokenizer with a mask token or sentinels (tokenizer.specials = t5)")
        stops = full_stops(text) if settings.permute else None

        def hide(piece: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            body = without(piece, [end, mask])
            read = body if stops is None else permute_sentences(body, stops[body], rng=rng)
            source = infill(read, mask_id=mask, rng=rng, rate=settings.rate, mean_length=settings.mean_length)
            # Spans of length 0 add masks, so many of them could make the source too long.
            return np.append(source[:limit], end), np.append(body, end)

        return hide


def full_stops(text: TextTokenizer) -> Array:
    """Return whether each token of the vocabulary ends a sentence. Shape: [V]."""
    return np.array([(text.token_of(number) or "").endswith(STOPS) for number in range(text.vocab_size)])
