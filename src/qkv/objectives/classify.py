"""Classification and regression: one label, any number of labels or a number for each text or image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from qkv.common.batch import Labelled
from qkv.common.config import check_range
from qkv.common.outputs import LossOutput
from qkv.common.protocols import Scored
from qkv.objectives.entropy import binary_cross_entropy, squared_error
from qkv.objectives.parts import Losses, Soft, count_targets
from qkv.objectives.r_drop import CrossEntropy
from qkv.objectives.soft import soft_classes, soft_numbers


@dataclass(frozen=True, kw_only=True)
class _Labels:
    """Base of objectives with one part, over the labels of a batch."""

    part: ClassVar[str] = "classify"

    @property
    def weights(self) -> dict[str, float]:
        """One part."""
        return {self.part: 1.0}

    def counts(self, batch: Labelled) -> dict[str, Tensor]:
        """Count the targets."""
        return {self.part: count_targets(batch.labels)}

    def __call__(self, model: Scored, batch: Labelled) -> Losses:
        """Score every sequence or image."""
        return self.losses(self.said(model, batch), batch)

    def said(self, model: Scored, batch: Labelled) -> Tensor:
        """Compute the logits of every class, or the number. Shape: [B, C] or [B]."""
        return model.logits(model.states_for(batch.inputs, self.part), self.part)

    def losses(self, said: Tensor, batch: Labelled) -> Losses:
        """Compute the loss."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Classify(CrossEntropy):
    """One class for each sequence or image.

    Attributes:
        head: the head that scores the classes.
        class_weights: how much each class counts in training, in the order of the labels. If empty, train.balance
            decides.
    """

    part: ClassVar[str] = "classify"
    head: str = "classify"
    class_weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for weight in self.class_weights:
            check_range("class_weights", weight, 0)

    def importance(self) -> tuple[float, ...]:
        """Return the class weights."""
        return self.class_weights

    def targets(self, batch: Labelled) -> Tensor:
        """Return the labels. Shape: [B]."""
        return batch.labels

    def logits(self, model: Scored, batch: Labelled, twice: bool) -> Tensor:
        """Score the classes. Shape: [B or 2B, C]."""
        inputs = batch.inputs.twice() if twice else batch.inputs
        return model.logits(model.states_for(inputs, self.head), self.head)


@dataclass(frozen=True, kw_only=True)
class ClassifyAny(_Labels):
    """Any number of classes (multi-label): each class is a yes or no, and a target of its own."""

    def losses(self, said: Tensor, batch: Labelled) -> Losses:
        """Compute the binary cross-entropy of every class of every sequence or image."""
        return {self.part: binary_cross_entropy(said, batch.labels)}

    def soft(self, said: Tensor, taught: Tensor, batch: Labelled, how: Soft) -> LossOutput:
        """Compare yes and no: σ(x) is the first of the softmax of x and 0."""
        mine, theirs = (torch.stack([x, torch.zeros_like(x)], dim=-1).flatten(0, -2) for x in (said, taught))
        return soft_classes(mine, theirs, batch.labels.flatten(), how)


@dataclass(frozen=True, kw_only=True)
class Regress(_Labels):
    """A number, by squared error. A label of exactly -100 is ignored.

    Attributes:
        standardize: learn (number - mean) / standard deviation; the saved model predicts numbers on their own scale.
    """

    standardize: bool = False
    part: ClassVar[str] = "regress"

    def losses(self, said: Tensor, batch: Labelled) -> Losses:
        """Compute the squared error."""
        return {self.part: squared_error(said, batch.labels)}

    def soft(self, said: Tensor, taught: Tensor, batch: Labelled, how: Soft) -> LossOutput:
        """Compare the numbers; they have no temperature."""
        del how
        return soft_numbers(said, taught, batch.labels)
