"""Say the target of a source: translation, summaries, T5's spans, BART's repairs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.common.batch import Pairs, Translated
from qkv.common.errors import UsageError
from qkv.common.protocols import Scored
from qkv.objectives.agreement import distance, twice
from qkv.objectives.entropy import cross_entropy
from qkv.objectives.parts import Losses, number_asked


@dataclass(frozen=True, kw_only=True)
class Translate:
    """Cross-entropy over target tokens, smoothed (Vaswani et al. 2017, section 5.4).

    Attributes:
        smoothing: ε, the share of the target spread over the whole vocabulary.
        agreement: R-Drop's α (Liang et al. 2021): two passes with different dropout shall say the same; 0: one pass.
    """

    smoothing: float = 0.1
    agreement: float = 0.0

    def __post_init__(self) -> None:
        if self.agreement < 0:
            raise UsageError(f"agreement must not be below 0, got {self.agreement}")

    @property
    def weights(self) -> dict[str, float]:
        """R-Drop adds both passes' losses to α times their distance; here passes are averaged, so α is halved too."""
        return {"translate": 1.0, "agreement": self.agreement / 2} if self.agreement else {"translate": 1.0}

    def counts(self, batch: Translated) -> dict[str, Tensor]:
        """Count the target tokens, of both passes where there are two."""
        one = number_asked(batch.wanted)
        return {"translate": 2 * one, "agreement": one} if self._twice else {"translate": one}

    def __call__(self, model: Scored, batch: Translated) -> Losses:
        """Run one pass, or two side by side where there is a gradient to be had from their distance."""
        if not self._twice:
            logits = model.logits(model(batch.pairs), "lm")
            return {"translate": cross_entropy(logits, batch.wanted, smoothing=self.smoothing)}
        pairs = Pairs(twice(batch.pairs.source), twice(batch.pairs.target))
        logits = model.logits(model(pairs), "lm")
        both = cross_entropy(logits, batch.wanted.repeat(2), smoothing=self.smoothing)
        return {"translate": both, "agreement": distance(logits, batch.wanted)}

    @property
    def _twice(self) -> bool:
        return self.agreement > 0 and torch.is_grad_enabled()
