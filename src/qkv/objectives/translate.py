"""Sequence to sequence: translation, summaries, T5's spans, BART's denoising."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from qkv.common.batch import Pairs, Translated
from qkv.common.protocols import Scored
from qkv.objectives.r_drop import CrossEntropy


@dataclass(frozen=True, kw_only=True)
class Translate(CrossEntropy):
    """Cross-entropy over target tokens, smoothed (Vaswani et al. 2017, section 5.4)."""

    smoothing: float = 0.1
    part: ClassVar[str] = "translate"

    def targets(self, batch: Translated) -> Tensor:
        """Return the target tokens. Shape: [T]."""
        return batch.wanted

    def logits(self, model: Scored, batch: Translated, twice: bool) -> Tensor:
        """Compute the logits of each target token. Shape: [T or 2T, V]."""
        pairs = batch.pairs
        if twice:
            pairs = Pairs(pairs.source.twice(), pairs.target.twice())
        return model.logits(model(pairs), "lm")
