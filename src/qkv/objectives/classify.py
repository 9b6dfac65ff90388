"""Classification and regression: one label, any number of labels or a number for each text or image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from qkv.common.batch import Labelled
from qkv.common.config import check_range
from qkv.common.protocols import Scored
from qkv.objectives.entropy import binary_cross_entropy, squared_error
from qkv.objectives.parts import Losses, count_targets
from qkv.objectives.r_drop import CrossEntropy


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

    def __call__(self, model: Scored, batch: Labelled) -> Losses:
        """Score every class of every sequence or image."""
        logits = model.logits(model.states_for(batch.inputs, "classify"), "classify")
        return {self.part: binary_cross_entropy(logits, batch.labels)}


@dataclass(frozen=True, kw_only=True)
class Regress(_Labels):
    """A number, by squared error. A label of exactly -100 is ignored.

    Attributes:
        standardize: learn (number - mean) / standard deviation; the saved model predicts numbers on their own scale.
    """

    standardize: bool = False
    part: ClassVar[str] = "regress"

    def __call__(self, model: Scored, batch: Labelled) -> Losses:
        """Score every sequence."""
        found = model.logits(model.states_for(batch.inputs, "regress"), "regress")
        return {self.part: squared_error(found, batch.labels)}
