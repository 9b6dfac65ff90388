"""The mean and the standard deviation of the pixels of training images, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = 1 / 255  # images of one colour have no deviation to divide by


class PixelFacts:
    """Adds up images; every image counts the same, however large."""

    def __init__(self) -> None:
        self.count = 0
        self.sums: NDArray[np.float64] = np.zeros((2, 3))
        self.colour = False

    def add(self, pixels: NDArray[np.uint8]) -> None:
        """Add an image; a grey one counts for all channels. Shape: [C, H, W]."""
        values = pixels.reshape(len(pixels), -1).astype(np.float32)
        values /= 255
        self.sums += np.stack([values.mean(1), np.square(values).mean(1)])
        self.count += 1
        self.colour |= len(pixels) > 1

    def result(self) -> dict[str, Any]:
        """Return `mean` and `std` of each channel, as shares of 255; nothing without images."""
        if not self.count:
            return {}
        channels = 3 if self.colour else 1
        mean, square = self.sums[:, :channels] / self.count
        std = np.sqrt(np.maximum(square - mean**2, LEAST**2))
        return {name: tuple(round(float(n), 4) for n in row) for name, row in (("mean", mean), ("std", std))}
