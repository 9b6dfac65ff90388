"""Image classification: augmentation, Mixup's two labels, and DeiT's distillation from a teacher.

    bytes ─► augment ─► normalise ─► model ─► label loss
                 └────► normalise as the teacher's ─► teacher ─► distillation loss

All of it runs on the device of the batch. Without a gradient (validation), images stay as they are and there is no
teacher.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.batch import Images, Labelled
from qkv.common.config import check_range
from qkv.common.errors import unknown
from qkv.common.outputs import LossOutput
from qkv.common.pixels import ImageProcessor
from qkv.common.protocols import Scored
from qkv.nn.augment import Augment
from qkv.nn.augment.mixing import partner
from qkv.objectives.classify import Classify
from qkv.objectives.entropy import log_softmax, mixed_cross_entropy
from qkv.objectives.parts import Losses
from qkv.objectives.r_drop import distance
from qkv.objectives.teacher import Teacher

DISTIL = ("hard", "soft")


@dataclass(frozen=True, kw_only=True)
class ImageSettings(Classify):
    """The settings of image classification.

    Attributes:
        normalize: subtract the mean of the training images and divide by their standard deviation. If false, pixels
            are scaled to -1 … 1. A model to start from brings its own numbers.
        drop_path: stochastic depth: the probability of skipping the last layer for an image; lower layers are skipped
            less often.
        augment: how training images are changed.
        teacher: the folder of a trained image model to distil from; it may have another size, and its classes are
            matched by name. It is not stored in the run.
        distill: hard (learn the teacher's answer) or soft (learn its probabilities).
        alpha: the weight of the teacher's loss; the labels get the rest.
        temperature: softens the probabilities of both models with distill = "soft".
    """

    normalize: bool = False
    drop_path: float = 0.0
    augment: Augment = field(default_factory=Augment)
    teacher: str = ""
    distill: str = "hard"
    alpha: float = 0.5
    temperature: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("drop_path", self.drop_path, 0, below=1)
        if self.distill not in DISTIL:
            raise unknown("objective.distill", self.distill, DISTIL)
        check_range("alpha", self.alpha, 0, below=1 + 1e-9)
        check_range("temperature", self.temperature, 1e-3)


@dataclass(frozen=True, kw_only=True)
class ClassifyImages:
    """One class for each image, which arrives as bytes.

    Attributes:
        settings: the recipe's.
        processor: how bytes become the numbers that the model reads.
        teacher: a frozen model to distil from, or None.
    """

    settings: ImageSettings
    processor: ImageProcessor = ImageProcessor()
    teacher: Teacher | None = None

    @property
    def distils(self) -> bool:
        """Whether the teacher is asked: only in training."""
        return self.teacher is not None and torch.is_grad_enabled()

    @property
    def weights(self) -> dict[str, float]:
        """(1 - α) · labels + α · teacher (Touvron et al. 2021, equations 2 and 3)."""
        found = self.settings.weights
        return found | {"classify": 1 - self.settings.alpha, "distill": self.settings.alpha} if self.distils else found

    def counts(self, batch: Labelled) -> dict[str, Tensor]:
        """Count the targets of each part."""
        found = self.settings.counts(batch)
        return found | {"distill": found["classify"]} if self.distils else found

    def __call__(self, model: Scored, batch: Labelled) -> Losses:
        """Run one pass, or R-Drop's two side by side."""
        settings, twice = self.settings, self.settings.two_passes
        pixels, own = self._augmented(batch.inputs)
        images = Images(self.processor.numbers(pixels))
        label, taught = self._scores(model, images.twice() if twice else images)
        labels = batch.labels
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
        if self.distils:
            said = self.teacher(pixels)  # type: ignore[misc]
            losses["distill"] = self._distilled(taught, said.repeat(2, 1) if twice else said)
        return losses

    def _augmented(self, inputs: Any) -> tuple[Tensor, Tensor | None]:
        """Return pixels from 0 to 255 in fp32, changed in training, and how much of each image is its own."""
        pixels = inputs.pixels.float()
        if inputs.draws is None or not torch.is_grad_enabled():
            return pixels, None
        fill = torch.tensor(self.processor.mean, device=pixels.device) / self.processor.rescale
        with torch.no_grad():
            return self.settings.augment(pixels, inputs.draws, fill)

    def _scores(self, model: Scored, images: Images) -> tuple[Tensor, Tensor]:
        """Return what the labels and what the teacher train: DeiT's two tokens, or the same scores."""
        name = self.settings.head
        hidden = model.states_for(images, name)
        if self.distils and hasattr(model.head(name), "both"):
            return model.head(name).both(hidden)
        scores = model.logits(hidden, name)
        return scores, scores

    def _distilled(self, scores: Tensor, teacher: Tensor) -> LossOutput:
        if self.settings.distill == "hard":
            return mixed_cross_entropy(scores, teacher.argmax(-1), None, None)
        heat = self.settings.temperature
        log_p, log_q = log_softmax(scores / heat), log_softmax(teacher / heat)
        loss = heat**2 * F.kl_div(log_p, log_q, reduction="sum", log_target=True)
        return LossOutput(loss, torch.full((), len(scores), device=scores.device))
