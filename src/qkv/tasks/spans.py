"""Span corruption: predict masked spans, each after its sentinel (T5, Raffel et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from qkv.common.batch import Translated
from qkv.common.errors import UsageError
from qkv.data.corruption import corrupt_spans
from qkv.data.store import Store
from qkv.objectives.translate import Translate
from qkv.tasks.base import Array, Collate, Context
from qkv.tasks.facts import Rule
from qkv.tasks.language import WindowTask
from qkv.tasks.pretraining_rules import MASKED, rules
from qkv.tasks.translate import translated

Damage = Callable[[Array, np.random.Generator], tuple[Array, Array]]  # from a text to a source and a target


@dataclass(frozen=True, kw_only=True)
class TargetLoss:
    """Settings of the loss on the target.

    Attributes:
        smoothing: ε of label smoothing, the share of the target spread over all classes.
        r_drop: α of R-Drop, the weight of the divergence between two passes with different dropout. 0 runs one pass.
    """

    smoothing: float = 0.0
    r_drop: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SpanSettings(TargetLoss):
    """Settings of the masking and the loss.

    Attributes:
        rate: the share of tokens to mask.
        mean_length: the mean length of a masked span.
    """

    rate: float = 0.15
    mean_length: float = 3.0

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1 or self.mean_length < 1:
            got = f"got {self.rate:g} and {self.mean_length:g}"
            raise UsageError(f"objective.rate must be from 0 to 1 and objective.mean_length at least 1, {got}")


class SequenceTask(WindowTask):
    """The base of tasks that make a source and a target from each piece of text, anew in every batch.

    An encoder reads the source, and a decoder predicts the target. All of them read the same windows of text and train
    the same tokenizer, so that `task` is the only key to change to compare two of them.
    """

    Settings: ClassVar[type[Any]] = TargetLoss
    specials: ClassVar[str] = "t5"
    heads: ClassVar[tuple[str, ...]] = ("lm",)
    rules: ClassVar[Mapping[str, Rule]] = rules(MASKED)

    def build(self, config: Any) -> nn.Module:
        """Build an encoder-decoder."""
        return super().build(encoder_decoder(config))

    def damage(self, context: Context) -> Damage:
        """Return a function from a text to the source and the target, each with an end token."""
        raise NotImplementedError

    def collate(self, store: Store, context: Context) -> Collate:
        """Make a source and a target from each piece."""
        windows, damage, start = self.windows(store, context), self.damage(context), context.config.start_id

        def make(rows: Array, rng: np.random.Generator) -> Translated:
            flat, lengths = windows.gather(rows)
            both = [damage(piece, rng) for piece in np.split(flat, np.cumsum(lengths)[:-1])]
            source, target = (_joined([pair[side] for pair in both]) for side in (0, 1))
            return translated(source, target, start)

        return make

    def objective(self) -> Translate:
        """Return cross-entropy over the target."""
        return Translate(smoothing=self.settings.smoothing, r_drop=self.settings.r_drop)


class SpansTask(SequenceTask):
    """A sentinel stands for each masked span in the source; the target is the spans, each after its sentinel."""

    Settings: ClassVar[type[Any]] = SpanSettings

    def damage(self, context: Context) -> Damage:
        """Replace spans with sentinels."""
        end, sentinels, settings = context.text.specials["end"], context.text.sentinels, self.settings
        if not sentinels:
            raise UsageError("span corruption needs a tokenizer with sentinels (tokenizer.specials = t5)")

        special = np.array([end, *sentinels])
        how = {"rate": settings.rate, "mean_length": settings.mean_length}

        def hide(piece: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            body = without(piece, special)
            source, target = corrupt_spans(body, sentinels=sentinels, end_id=end, rng=rng, **how)
            return np.append(source, end), target

        return hide


def encoder_decoder(config: Any) -> Any:
    """Return the config, which must be one of an encoder-decoder."""
    if not hasattr(config, "start_id"):
        raise UsageError("this task needs an encoder-decoder (presets of t5, transformer, marian or rnn)")
    return config


def without(piece: Array, special: ArrayLike) -> Array:
    """Remove tokens with a special meaning here: the end of a document, and sentinels that occur in the text itself."""
    return piece[~np.isin(piece, special)]


def _joined(sequences: list[Array]) -> tuple[Array, Array]:
    return np.concatenate(sequences), np.array([len(ids) for ids in sequences])
