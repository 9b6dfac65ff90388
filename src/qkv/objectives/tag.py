"""A label for each token: names, parts of speech."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.common.batch import Labelled
from qkv.common.errors import UsageError
from qkv.common.protocols import Scored
from qkv.objectives.agreement import distance, twice
from qkv.objectives.entropy import log_softmax, of_log
from qkv.objectives.parts import Losses, number_asked


@dataclass(frozen=True, kw_only=True)
class Tag:
    """One class for each token; the later pieces of a word and the special tokens are not asked for.

    Attributes:
        smoothing: ε of label smoothing.
        agreement: R-Drop's α: two passes with different dropout shall say the same; 0: one pass.
    """

    smoothing: float = 0.0
    agreement: float = 0.0

    def __post_init__(self) -> None:
        if self.agreement < 0:
            raise UsageError(f"agreement must not be below 0, got {self.agreement}")

    @property
    def weights(self) -> dict[str, float]:
        """R-Drop adds both passes' losses to α times their distance; here passes are averaged, so α is halved too."""
        return {"tag": 1.0, "agreement": self.agreement / 2} if self.agreement else {"tag": 1.0}

    def counts(self, batch: Labelled) -> dict[str, Tensor]:
        """Count the targets, of both passes where there are two."""
        one = number_asked(batch.labels)
        return {"tag": 2 * one, "agreement": one} if self._twice else {"tag": one}

    def __call__(self, model: Scored, batch: Labelled) -> Losses:
        """Score every row, twice where there is a gradient to be had from the distance."""
        inputs, labels = batch.inputs, batch.labels
        if self._twice:
            inputs, labels = twice(inputs), labels.repeat(2)
        log_p = log_softmax(model.logits(model(inputs), "tag"))
        losses = {"tag": of_log(log_p, labels, smoothing=self.smoothing)}
        if self._twice:
            one, other = log_p.chunk(2)
            losses["agreement"] = distance(one, other, batch.labels)
        return losses

    @property
    def _twice(self) -> bool:
        return self.agreement > 0 and torch.is_grad_enabled()
