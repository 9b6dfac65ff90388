"""Denoising: repeat a text of which each hidden span is one mask, whatever its length (BART, Lewis et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qkv.common.errors import UsageError
from qkv.data.corruption import infill
from qkv.objectives.translate import Translate
from qkv.tasks.base import Array, Context
from qkv.tasks.spans import Damage, SpansTask, without


@dataclass(frozen=True, kw_only=True)
class DenoiseSettings:
    """How much is hidden, and the loss.

    Attributes:
        rate: share of the tokens that is hidden.
        mean_length: of the spans, whose lengths follow a Poisson distribution.
        smoothing: label smoothing.
        r_drop: R-Drop's α; 0 for one pass.
    """

    rate: float = 0.3
    mean_length: float = 3.0
    smoothing: float = 0.0
    r_drop: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1 or self.mean_length <= 0:
            got = f"got {self.rate:g} and {self.mean_length:g}"
            raise UsageError(f"objective.rate must be from 0 to 1 and objective.mean_length above 0, {got}")


class DenoiseTask(SpansTask):
    """The mask is the tokenizer's mask token; a tokenizer of T5's kind has none, and its first sentinel serves."""

    Settings: ClassVar[type[Any]] = DenoiseSettings

    def length(self, context: Context) -> int:
        """Leave a place for the end token, which every source and target gets."""
        return max(1, super().length(context) - 1)

    def damage(self, context: Context) -> Damage:
        """Put masks in place of spans; the end token is no part of them."""
        text, settings = context.text, self.settings
        end, limit = text.specials["end"], self.length(context)
        mask = text.specials.get("mask", next(iter(text.sentinels), None))
        if mask is None:
            raise UsageError("denoising needs a tokenizer with a mask token or sentinels (tokenizer.specials = t5)")

        def hide(piece: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            body = without(piece, [end, mask])
            source = infill(body, mask_id=mask, rng=rng, rate=settings.rate, mean_length=settings.mean_length)
            # Spans of length 0 add masks: very many short ones could make the source too long.
            return np.append(source[:limit], end), np.append(body, end)

        return hide

    def objective(self) -> Translate:
        """Cross-entropy of the whole text."""
        return Translate(smoothing=self.settings.smoothing, r_drop=self.settings.r_drop)
