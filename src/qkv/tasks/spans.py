"""Span corruption: predict masked spans, each after its sentinel (T5, Raffel et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import nn

from qkv.common.batch import Translated
from qkv.common.errors import UsageError
from qkv.data.corruption import corrupt_spans
from qkv.data.store import Store
from qkv.objectives.translate import Translate
from qkv.tasks.base import Array, Collate, Context
from qkv.tasks.language import WindowTask
from qkv.tasks.translate import translated

Damage = Callable[[Array, np.random.Generator], tuple[Array, Array]]


@dataclass(frozen=True, kw_only=True)
class Unsmoothed(Translate):
    """Cross-entropy over the target, without label smoothing by default."""

    smoothing: float = 0.0


class SpansTask(WindowTask):
    """An encoder reads the corrupted text, and a decoder predicts the missing spans."""

    Settings: ClassVar[type[Any]] = Unsmoothed
    specials: ClassVar[str] = "t5"
    heads: ClassVar[tuple[str, ...]] = ("lm",)

    def build(self, config: Any) -> nn.Module:
        """Build an encoder-decoder."""
        if not hasattr(config, "start_id"):
            raise UsageError("this task needs an encoder-decoder (presets of t5, transformer, marian or rnn)")
        return super().build(config)

    def damage(self, context: Context) -> Damage:
        """Return a function from a text to the source and the target."""
        end, sentinels = context.text.specials["end"], context.text.sentinels
        if not sentinels:
            raise UsageError("span corruption needs a tokenizer with sentinels (tokenizer.specials = t5)")

        def hide(piece: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            body = without(piece, [end, *sentinels])
            source, target = corrupt_spans(body, sentinels=sentinels, end_id=end, rng=rng)
            return np.append(source, end), target

        return hide

    def collate(self, store: Store, context: Context) -> Collate:
        """Corrupt each piece at random in every batch."""
        windows, damage, start = self.windows(store, context), self.damage(context), context.config.start_id

        def make(rows: Array, rng: np.random.Generator) -> Translated:
            flat, lengths = windows.gather(rows)
            both = [damage(piece, rng) for piece in np.split(flat, np.cumsum(lengths)[:-1])]
            source, target = (_joined([pair[side] for pair in both]) for side in (0, 1))
            return translated(source, target, start)

        return make


def without(piece: Array, special: list[int]) -> Array:
    """Remove tokens with a special meaning here: the end of a document, and sentinels that occur in the text itself."""
    return piece[~np.isin(piece, special)]


def _joined(sequences: list[Array]) -> tuple[Array, Array]:
    return np.concatenate(sequences), np.array([len(ids) for ids in sequences])
