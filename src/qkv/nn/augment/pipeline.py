"""All augmentation of a batch, by one config."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qkv.common.errors import UsageError
from qkv.nn.augment import geometry, mixing, rand_augment
from qkv.nn.augment.draws import Draws

RANGES = (
    ("crop", 0, 1000), ("scale", 0.01, 1), ("rand_augment", 0, rand_augment.HIGHEST), ("mixup", 0, 100),
    ("cutmix", 0, 100), ("mixed", 0, 1), ("erase", 0, 1),
)  # fmt: skip


class Mixed(NamedTuple):
    """Augmented images.

    Attributes:
        pixels: from 0 to 255. Shape: [B, C, H, W].
        own: how much of each image is its own, or None if all of it. Shape: [B].
    """

    pixels: Tensor
    own: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Augment:
    """How training images are changed; validation and prediction see them as they are.

    Attributes:
        crop: random crop: the image is padded by this many pixels and cut to its size again.
        scale: random resized crop: the least share of the area that is kept. 1 turns it off.
        flip: mirror half of the images. Not for digits, letters or other images whose sides mean something.
        rand_augment: the magnitude of RandAugment's two operations, from 0 (off) to 10. Grey images are only rotated,
            sheared and shifted.
        mixup: α of Mixup. 0 turns it off.
        cutmix: α of CutMix. 0 turns it off. With both, each mixed image gets one of the two.
        mixed: the share of the images that are mixed.
        erase: the probability of random erasing.
    """

    crop: int = 0
    scale: float = 1.0
    flip: bool = False
    rand_augment: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    mixed: float = 1.0
    erase: float = 0.0

    def __post_init__(self) -> None:
        for name, least, most in RANGES:
            value = getattr(self, name)
            if not least <= value <= most:
                raise UsageError(f"augment.{name} must be from {least:g} to {most:g}, got {value:g}")

    @property
    def mixes(self) -> bool:
        """Whether images are mixed."""
        return bool(self.mixup or self.cutmix)

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """Draw the random numbers of a batch. Shape: [B, columns]."""
        return Draws.make(rng, count, mixup=self.mixup, cutmix=self.cutmix)

    def __call__(self, pixels: Tensor, rows: Tensor, fill: Tensor) -> Mixed:
        """Change a batch: the same pixels and draws give the same images.

        Args:
            pixels: from 0 to 255, in fp32. Shape: [B, C, H, W].
            rows: the draws. Shape: [B, columns].
            fill: the colour of erased boxes. Shape: [C] or [1].
        """
        draws = Draws(rows)
        places = self._places(draws, pixels)
        x = pixels if places is None else geometry.sampled(pixels, places)
        if self.rand_augment:
            x = rand_augment.coloured(x, draws, self.rand_augment)
        own = None
        if self.mixes:
            x, own = mixing.mixed(x, draws, mixup=self.mixup > 0, cutmix=self.cutmix > 0, share=self.mixed)
        if self.erase:
            x = mixing.erased(x, draws, self.erase, fill)
        return Mixed(x, own)

    def _places(self, draws: Draws, pixels: Tensor) -> Tensor | None:
        """Return the product of the matrices of all geometric operations, or None if there are none."""
        found: list[Tensor] = []
        if self.scale < 1:
            found.append(geometry.resized_crop(draws, self.scale))
        if self.crop:
            found.append(geometry.shifted(draws, self.crop, (pixels.shape[2], pixels.shape[3])))
        if self.flip:
            found.append(geometry.flipped(draws))
        if self.rand_augment:
            found.append(rand_augment.placed(draws, self.rand_augment, pixels.shape[1]))
        return reduce(torch.matmul, found) if found else None
