"""A trained model that a student learns from: frozen, in eval(), and no part of what is trained or saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.common.batch import Images
from qkv.common.pixels import ImageProcessor
from qkv.nn.augment.colour import grey
from qkv.objectives.parts import Teachable


@dataclass(frozen=True, eq=False)
class Teacher:
    """A model that reads the student's batches.

    Attributes:
        model: the model.
    """

    model: nn.Module

    @torch.no_grad()
    def __call__(self, objective: Teachable, batch: Any, said: Any) -> Any:
        """Return what the teacher says about a batch; `said` is what the student says."""
        del said
        return objective.said(self.model, batch)


@dataclass(frozen=True, eq=False)
class ImageTeacher(Teacher):
    """An image classifier that sees the student's augmented images, in its own size and numbers.

    The model has a buffer `wanted_classes`: its class for each class of the student. Shape: [C].

    Attributes:
        head: the head that scores its classes.
        processor: how pixels become the numbers it reads.
        shape: channels, height and width that it takes.
    """

    head: str
    processor: ImageProcessor
    shape: tuple[int, int, int]

    def __call__(self, objective: Teachable, batch: Any, said: Any) -> Tensor:
        """Return its scores of the images that the student saw. Shape: [B, classes]."""
        del objective, batch
        return self.scores(said.pixels)

    @torch.no_grad()
    def scores(self, pixels: Tensor) -> Tensor:
        """Return its scores of the student's classes. Shape: [B, C, H, W] from 0 to 255 -> [B, classes]."""
        model = self.model
        numbers = self.processor.numbers(self._fitted(pixels))
        scores: Tensor = model.logits(model.states_for(Images(numbers), self.head), self.head)  # type: ignore[operator]
        return scores.float().index_select(1, model.wanted_classes)  # type: ignore[arg-type]

    def _fitted(self, pixels: Tensor) -> Tensor:
        channels, height, width = self.shape
        if pixels.shape[1] != channels:
            pixels = pixels.expand(-1, channels, -1, -1) if pixels.shape[1] == 1 else grey(pixels)
        if pixels.shape[2:] == (height, width):
            return pixels
        return F.interpolate(pixels, (height, width), mode="bilinear", align_corners=False, antialias=True)
