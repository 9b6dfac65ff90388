"""The random numbers of a batch of images: one row for each image, made on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

COLUMNS = (
    "flip", "shift_x", "shift_y",
    "crop_area", "crop_ratio", "crop_x", "crop_y",
    "first", "first_sign", "second", "second_sign",
    "mixed", "cut", "cut_x", "cut_y",
    "erased", "erased_area", "erased_ratio", "erased_x", "erased_y",
    "mixup_share", "cutmix_share",
)  # fmt: skip


class Draws:
    """The columns of a batch's draws, by name. Shape of each: [B]."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def __getitem__(self, name: str) -> Tensor:
        return self.rows[:, COLUMNS.index(name)]

    @staticmethod
    def make(rng: np.random.Generator, count: int, *, mixup: float, cutmix: float) -> Tensor:
        """Draw uniform numbers, and how much of an image is left after mixing: Beta(α, α). Shape: [B, columns]."""
        found: np.ndarray[Any, np.dtype[np.float32]] = rng.random((count, len(COLUMNS)), dtype=np.float32)
        for name, alpha in (("mixup_share", mixup), ("cutmix_share", cutmix)):
            if alpha > 0:
                found[:, COLUMNS.index(name)] = rng.beta(alpha, alpha, count)
        return torch.from_numpy(found)


def among(draw: Tensor, count: Tensor | int) -> Tensor:
    """Turn uniform numbers into whole ones from 0 to count - 1. Shape: [B] -> [B]."""
    found = (draw * count).floor()
    return torch.minimum(found, count - 1) if isinstance(count, Tensor) else found.clamp_max(count - 1)
