"""Say the target of a source: translation, summaries, T5's spans, BART's repairs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.common.batch import Translated
from qkv.common.errors import UsageError
from qkv.common.outputs import LossOutput
from qkv.common.protocols import Scored
from qkv.objectives.entropy import log_softmax, of_log
from qkv.objectives.parts import IGNORED, Losses, number_asked


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
        """Run one pass, or two where there is a gradient to be had from their distance."""
        log_p = self._pass(model, batch)
        first = of_log(log_p, batch.wanted, smoothing=self.smoothing)
        if not self._twice:
            return {"translate": first}
        log_q = self._pass(model, batch)
        second = of_log(log_q, batch.wanted, smoothing=self.smoothing)
        sums = {name: first.sums[name] + second.sums[name] for name in first.sums}
        both = LossOutput(first.total + second.total, first.count + second.count, sums)
        return {"translate": both, "agreement": distance(log_p, log_q, batch.wanted)}

    @property
    def _twice(self) -> bool:
        return self.agreement > 0 and torch.is_grad_enabled()

    def _pass(self, model: Scored, batch: Translated) -> Tensor:
        return log_softmax(model.logits(model(batch.pairs), "lm"))


def distance(log_p_TV: Tensor, log_q_TV: Tensor, wanted: Tensor) -> LossOutput:
    """½ (KL(p‖q) + KL(q‖p)) of each row (Liang et al. 2021, equation 2), which is ½ Σ (p - q)(log p - log q)."""
    asked = wanted != IGNORED
    rows = 0.5 * ((log_p_TV.exp() - log_q_TV.exp()) * (log_p_TV - log_q_TV)).sum(-1)
    return LossOutput(rows.masked_fill(~asked, 0).sum(), asked.sum())
