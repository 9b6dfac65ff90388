"""Crop, flip, rotate, shear and shift: each is a matrix per image, and one sampling applies their product.

A matrix maps places of the new image to places of the old one, in coordinates from -1 to 1. Beyond the edge, the edge
pixels repeat, so the background stays what it is.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.nn.augment.draws import Draws, among

RATIO = math.log(4 / 3)  # of width to height in a resized crop, from 3/4 to 4/3


def matrices(a: Tensor, b: Tensor, c: Tensor, d: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Stack [[a, b, x], [c, d, y], [0, 0, 1]]. Shape: [B] each -> [B, 3, 3]."""
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    return torch.stack([a, b, x, c, d, y, zero, zero, one], dim=-1).unflatten(-1, (3, 3))


def flipped(draws: Draws) -> Tensor:
    """Mirror half of the images."""
    draw = draws["flip"]
    zero, one = torch.zeros_like(draw), torch.ones_like(draw)
    return matrices(torch.where(draw < 0.5, -one, one), zero, zero, one, zero, zero)


def shifted(draws: Draws, most: int, size: tuple[int, int]) -> Tensor:
    """Shift by whole pixels, up to `most`: what a random crop of the padded image gives."""
    x, y = (among(draws[f"shift_{axis}"], 2 * most + 1) - most for axis in "xy")
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    height, width = size
    return matrices(one, zero, zero, one, 2 * x / width, 2 * y / height)


def resized_crop(draws: Draws, least: float) -> Tensor:
    """Enlarge a random part with at least this share of the area (Szegedy et al. 2015, section 6)."""
    area = least + (1 - least) * draws["crop_area"]
    ratio = torch.exp(RATIO * (2 * draws["crop_ratio"] - 1))
    width, height = (area * ratio).sqrt().clamp_max(1), (area / ratio).sqrt().clamp_max(1)
    zero = torch.zeros_like(area)
    x, y = (2 * draws["crop_x"] - 1) * (1 - width), (2 * draws["crop_y"] - 1) * (1 - height)
    return matrices(width, zero, zero, height, x, y)


def sampled(pixels: Tensor, places: Tensor) -> Tensor:
    """Apply a matrix to each image, with bilinear interpolation. Shape: [B, C, H, W], [B, 3, 3] -> [B, C, H, W]."""
    grid = F.affine_grid(places[:, :2], list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, mode="bilinear", padding_mode="border", align_corners=False)
