"""One label, any labels or a number for each text or picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from qkv.common.batch import Labelled
from qkv.common.errors import UsageError
from qkv.common.protocols import Scored
from qkv.objectives.agreement import distance, twice
from qkv.objectives.entropy import binary_cross_entropy, cross_entropy, squared_error
from qkv.objectives.parts import Losses, number_asked


@dataclass(frozen=True, kw_only=True)
class _Labels:
    """One part, over the labels of a batch."""

    part: ClassVar[str] = "classify"

    @property
    def weights(self) -> dict[str, float]:
        """One part."""
        return {self.part: 1.0}

    def counts(self, batch: Labelled) -> dict[str, Tensor]:
        """Count the targets."""
        return {self.part: number_asked(batch.labels)}


@dataclass(frozen=True, kw_only=True)
class Classify(_Labels):
    """One class of several.

    Attributes:
        smoothing: ε of label smoothing.
        agreement: R-Drop's α: two passes with different dropout shall say the same; 0: one pass.
        head: the head that scores the classes.
    """

    smoothing: float = 0.0
    agreement: float = 0.0
    head: str = "classify"

    def __post_init__(self) -> None:
        if self.agreement < 0:
            raise UsageError(f"agreement must not be below 0, got {self.agreement}")

    @property
    def weights(self) -> dict[str, float]:
        """R-Drop adds both passes' losses to α times their distance; here passes are averaged, so α is halved too."""
        return {self.part: 1.0, "agreement": self.agreement / 2} if self.agreement else {self.part: 1.0}

    def counts(self, batch: Labelled) -> dict[str, Tensor]:
        """Count the targets, of both passes where there are two."""
        one = number_asked(batch.labels)
        return {self.part: 2 * one, "agreement": one} if self._twice else {self.part: one}

    def __call__(self, model: Scored, batch: Labelled) -> Losses:
        """Score every sequence or picture, twice where there is a gradient to be had from the distance."""
        inputs, labels = batch.inputs, batch.labels
        if self._twice:
            inputs, labels = twice(inputs), labels.repeat(2)
        logits = model.logits(model.states_for(inputs, self.head), self.head)
        losses = {self.part: cross_entropy(logits, labels, smoothing=self.smoothing)}
        if self._twice:
            losses["agreement"] = distance(logits, batch.labels)
        return losses

    @property
    def _twice(self) -> bool:
        return self.agreement > 0 and torch.is_grad_enabled()


@dataclass(frozen=True, kw_only=True)
class ClassifyAny(_Labels):
    """Any of several classes: each is a yes or a no of its own, and a target of its own."""

    def __call__(self, model: Scored, batch: Labelled) -> Losses:
        """Score every class of every sequence or picture."""
        logits = model.logits(model.states_for(batch.inputs, "classify"), "classify")
        return {self.part: binary_cross_entropy(logits, batch.labels)}


@dataclass(frozen=True, kw_only=True)
class Regress(_Labels):
    """A number, by squared error. A wanted number of exactly -100 is not asked for."""

    part: ClassVar[str] = "regress"

    def __call__(self, model: Scored, batch: Labelled) -> Losses:
        """Score every sequence."""
        found = model.logits(model.states_for(batch.inputs, "regress"), "regress")
        return {self.part: squared_error(found, batch.labels)}
