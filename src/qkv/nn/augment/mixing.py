"""Mixup (Zhang et al. 2018), CutMix (Yun et al. 2019) and random erasing (Zhong et al. 2020), each image by itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from qkv.nn.augment.draws import Draws, among

AREAS = (0.02, 1 / 3)  # of an erased box, as a share of the image
RATIO = math.log(1 / 0.3)  # of its height to its width, from 0.3 to 1/0.3


def mixed(x: Tensor, draws: Draws, *, mixup: bool, cutmix: bool, share: float) -> tuple[Tensor, Tensor]:
    """Mix each image with the one before it in the batch.

    Args:
        x: Shape: [B, C, H, W].
        draws: of the batch.
        mixup: blend images.
        cutmix: paste a box. With both, half of the mixed images get each.
        share: how many of the images are mixed.

    Returns:
        The images, and how much of each is still its own; the rest belongs to the label of its partner. Shape: [B].
    """
    kept = torch.where(draws["mixed"] < share, draws["mixup_share"], torch.ones_like(draws["mixed"]))
    own = kept.view(-1, 1, 1).expand(-1, *x.shape[2:])
    if cutmix:
        cuts = (draws["mixed"] < share) & ((draws["cut"] < 0.5) | (not mixup))
        own = torch.where(cuts.view(-1, 1, 1), (~_box_of(x, draws)).to(x.dtype), own)
    other = x.roll(1, dims=0)
    return other + own.unsqueeze(1) * (x - other), own.mean((1, 2))


def partner(labels: Tensor) -> Tensor:
    """Return the label of the image that each one is mixed with. Shape: [B] -> [B]."""
    return labels.roll(1, dims=0)


def erased(x: Tensor, draws: Draws, probability: float, fill: Tensor) -> Tensor:
    """Fill a box of some images with a colour. Shape: [B, C, H, W], [C or 1] -> [B, C, H, W]."""
    height, width = x.shape[2:]
    least, most = AREAS
    area = (least + (most - least) * draws["erased_area"]) * height * width
    ratio = torch.exp(RATIO * (2 * draws["erased_ratio"] - 1))
    tall = (area * ratio).sqrt().round().clamp(1, height)
    wide = (area / ratio).sqrt().round().clamp(1, width)
    top, left = among(draws["erased_y"], height - tall + 1), among(draws["erased_x"], width - wide + 1)
    box = _inside(x, top, top + tall, left, left + wide) & (draws["erased"] < probability).view(-1, 1, 1)
    return torch.where(box.unsqueeze(1), fill.to(x.dtype).view(1, -1, 1, 1), x)


def _box_of(x: Tensor, draws: Draws) -> Tensor:
    """Return the box of each image that its partner fills: 1 - λ of the area, cut where it leaves the image."""
    height, width = x.shape[2:]
    side = (1 - draws["cutmix_share"]).sqrt()
    tall, wide = (side * height).floor(), (side * width).floor()
    y, x_ = among(draws["cut_y"], height), among(draws["cut_x"], width)
    top, left = y - (tall / 2).floor(), x_ - (wide / 2).floor()
    return _inside(x, top, top + tall, left, left + wide)


def _inside(x: Tensor, top: Tensor, bottom: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return which pixels lie in a box. Shape: [B] each -> [B, H, W]."""
    rows = torch.arange(x.shape[2], device=x.device).view(1, -1, 1)
    columns = torch.arange(x.shape[3], device=x.device).view(1, 1, -1)
    top, bottom, left, right = (side.view(-1, 1, 1) for side in (top, bottom, left, right))
    return (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
