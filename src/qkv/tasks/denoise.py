"""Denoising: restore a text in which each masked span is a single mask token (BART, Lewis et al. 2020)."""

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
    """Settings of the masking and the loss.

    Attributes:
        rate: the share of tokens to mask.
        mean_length: the mean length of a span; lengths are Poisson-distributed.
        smoothing: ε of label smoothing, the share of the target spread over all classes.
        r_drop: α of R-Drop, the weight of the divergence between two passes with different dropout. 0 runs one pass.
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
    """The mask is the tokenizer's mask token or, for a T5 tokenizer, which has none, the first sentinel."""

    Settings: ClassVar[type[Any]] = DenoiseSettings

    def length(self, context: Context) -> int:
        """Leave room for the end token, which every source and target gets."""
        return max(1, super().length(context) - 1)

    def damage(self, context: Context) -> Damage:
        """Replace spans with masks; the end token is never masked."""
        text, settings = context.text, self.settings
        end, limit = text.specials["end"], self.length(context)
        mask = text.specials.get("mask", next(iter(text.sentinels), None))
        if mask is None:
            raise UsageError("denoising needs a tokenizer with a mask token or sentinels (tokenizer.specials = t5)")

        def hide(piece: Array, rng: np.random.Generator) -> tuple[Array, Array]:
            body = without(piece, [end, mask])
            source = infill(body, mask_id=mask, rng=rng, rate=settings.rate, mean_length=settings.mean_length)
            # Spans of length 0 add masks, so many of them could make the source too long.
            return np.append(source[:limit], end), np.append(body, end)

        return hide

    def objective(self) -> Translate:
        """Return cross-entropy over the whole text."""
        return Translate(smoothing=self.settings.smoothing, r_drop=self.settings.r_drop)
