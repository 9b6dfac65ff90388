"""Image classification: augmentation, Mixup's two labels, and what DeiT's distillation token learns from a teacher.

    bytes ─► augment ─► normalise ─► model ─► label loss
                 └────► normalise as the teacher's ─► teacher ─► distillation loss

All of it runs on the device of the batch. Without a gradient (validation), images stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from qkv.common.batch import Images, Labelled
from qkv.common.config import check_range
from qkv.common.outputs import Hidden, LossOutput
from qkv.common.pixels import ImageProcessor, per_channel
from qkv.common.protocols import Scored
from qkv.nn.augment import Augment
from qkv.nn.augment.mixing import partner
from qkv.objectives.classify import Classify
from qkv.objectives.entropy import mixed_cross_entropy
from qkv.objectives.parts import Losses, Soft
from qkv.objectives.r_drop import distance
from qkv.objectives.soft import soft_classes


@dataclass(frozen=True, kw_only=True)
class ImageSettings(Classify):
    """The settings of image classification.

    Attributes:
        normalize: subtract the mean of the training images and divide by their standard deviation. If false, pixels
            are scaled to -1 … 1. A model to start from brings its own numbers.
        drop_path: stochastic depth: the probability of skipping the last layer for an image; lower layers are skipped
            less often.
        augment: how training images are changed.
    """

    normalize: bool = False
    drop_path: float = 0.0
    augment: Augment = field(default_factory=Augment)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("drop_path", self.drop_path, 0, below=1)


@dataclass(frozen=True, eq=False)
class Shown:
    """Images as a model saw them, and what it says.

    Attributes:
        pixels: from 0 to 255, changed in training. Shape: [B, C, H, W].
        own: how much of each image is its own, or None. Shape: [B].
        label: the scores that the labels train. Shape: [B or 2B, classes].
        taught: the scores that a teacher trains: of DeiT's distillation token, or the same. Shape: [B or 2B, classes].
    """

    pixels: Tensor
    own: Tensor | None
    label: Tensor
    taught: Tensor


@dataclass(frozen=True, kw_only=True)
class ClassifyImages:
    """One class for each image, which arrives as bytes.

    Attributes:
        settings: the recipe's.
        processor: how bytes become the numbers that the model reads.
    """

    settings: ImageSettings
    processor: ImageProcessor = ImageProcessor()

    @property
    def weights(self) -> dict[str, float]:
        """The recipe's."""
        return self.settings.weights

    def counts(self, batch: Labelled) -> dict[str, Tensor]:
        """Count the targets of each part."""
        return self.settings.counts(batch)

    def __call__(self, model: Scored, batch: Labelled) -> Losses:
        """Run one pass, or R-Drop's two side by side."""
        name = self.settings.head
        pixels, own, hidden = self._hidden(model, batch)
        label = model.logits(hidden, name)
        return self.losses(Shown(pixels, own, label, label), batch)

    def said(self, model: Scored, batch: Labelled) -> Shown:
        """Run the passes; labels and teacher train DeiT's two tokens, or the same scores."""
        name = self.settings.head
        pixels, own, hidden = self._hidden(model, batch)
        if torch.is_grad_enabled() and hasattr(model.head(name), "both"):
            return Shown(pixels, own, *model.head(name).both(hidden))
        label = model.logits(hidden, name)
        return Shown(pixels, own, label, label)

    def soft(self, said: Shown, taught: Tensor, batch: Labelled, how: Soft) -> LossOutput:
        """Compare the classes of the images as the student saw them, also where two images are mixed."""
        return soft_classes(said.taught, taught, batch.labels, how)

    def losses(self, said: Shown, batch: Labelled) -> Losses:
        """Compute the cross-entropy of both labels of a mixed image and, of two passes, their distance."""
        settings, twice = self.settings, self.settings.two_passes
        labels, own, label = batch.labels, said.own, said.label
        other, smoothing = partner(labels) if own is not None else None, settings.smoothing
        importance = settings.importance() if torch.is_grad_enabled() else ()
        if twice:
            own, other = (None if row is None else row.repeat(2) for row in (own, other))
        wanted = labels.repeat(2) if twice else labels
        losses = {
            "classify": mixed_cross_entropy(label, wanted, other, own, smoothing=smoothing, class_weights=importance)
        }
        if twice:
            losses["r_drop"] = distance(label, labels)
        return losses

    def _hidden(self, model: Scored, batch: Labelled) -> tuple[Tensor, Tensor | None, Hidden]:
        pixels, own = self._augmented(batch.inputs)
        images = Images(self.processor.numbers(pixels))
        return pixels, own, model.states_for(images.twice() if self.settings.two_passes else images, self.settings.head)

    def _augmented(self, inputs: Any) -> tuple[Tensor, Tensor | None]:
        """Return pixels from 0 to 255 in fp32, changed in training, and how much of each image is its own."""
        pixels = inputs.pixels.float()
        if inputs.draws is None or not torch.is_grad_enabled():
            return pixels, None
        fill = per_channel(self.processor.mean, pixels.device) / self.processor.rescale
        with torch.no_grad():
            return self.settings.augment(pixels, inputs.draws, fill)
