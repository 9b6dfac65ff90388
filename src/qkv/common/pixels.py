"""How an image becomes the numbers that a model reads: what `preprocessor_config.json` of `transformers` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

BILINEAR, BICUBIC = 2, 3  # Pillow's numbers for ways to resample


@dataclass(frozen=True, kw_only=True)
class ImageProcessor:
    """Resize, crop, then (pixel · rescale - mean) / std. The defaults map 0 … 255 to -1 … 1 and keep the size.

    Attributes:
        mean: of each channel, or one number for all.
        std: of each channel, or one number for all.
        rescale: each pixel is multiplied by it first.
        size: (height, width) to resize to, (n,) for n pixels on the shorter edge, or () to keep the size.
        crop: (height, width) to cut from the centre afterwards, or ().
        resample: how to resize: Pillow's number.
    """

    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)
    rescale: float = 1 / 255
    size: tuple[int, ...] = ()
    crop: tuple[int, ...] = ()
    resample: int = BILINEAR

    def numbers(self, pixels: Tensor) -> Tensor:
        """Return what a model reads, in fp32 on the device of the pixels. Shape: [B, C, H, W]."""
        mean, std = (per_channel(of, pixels.device).view(1, -1, 1, 1) for of in (self.mean, self.std))
        return (pixels.float() * self.rescale - mean) / std

    def resized_to(self, image_size: int) -> ImageProcessor:
        """Return the same numbers for images of another size."""
        return ImageProcessor(
            mean=self.mean,
            std=self.std,
            rescale=self.rescale,
            size=(image_size, image_size),
            resample=self.resample,
        )


def per_channel(values: Sequence[float], device: torch.device) -> Tensor:
    """Write numbers on a device without a copy from the host, which a recorded step cannot make. Shape: [C]."""
    return torch.stack([torch.full((), value, device=device, dtype=torch.float32) for value in values])
