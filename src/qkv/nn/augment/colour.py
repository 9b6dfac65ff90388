"""Operations on colours, for pixels from 0 to 255, with the results of Pillow's `ImageOps` and `ImageEnhance`.

Shape of all: [B, C, H, W] -> [B, C, H, W], and [B, 1, 1, 1] for strengths.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.pixels import per_channel

LUMINANCE = (0.299, 0.587, 0.114)  # ITU-R 601-2


def autocontrast(x: Tensor) -> Tensor:
    """Stretch each channel to 0 … 255."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    stretched = ((x - low) * (255 / (high - low).clamp_min(1e-6))).clamp_max(255)
    return torch.where(high > low, stretched, x)


def equalize(x: Tensor) -> Tensor:
    """Flatten the histogram of each channel."""
    values = x.round().clamp(0, 255).long().flatten(2).flatten(0, 1)
    counts = torch.zeros(len(values), 256, dtype=torch.int64, device=x.device)
    counts.scatter_add_(1, values, torch.ones_like(values))
    last = counts.gather(1, values.amax(1, keepdim=True))
    step = (values.shape[1] - last) // 255
    before = counts.cumsum(1) - counts
    table = ((before + step // 2) // step.clamp_min(1)).clamp_max(255)
    found = torch.where(step > 0, table.gather(1, values), values)
    return found.to(x.dtype).view(x.shape)


def solarize(x: Tensor, threshold: float) -> Tensor:
    """Invert the pixels from a threshold on."""
    return torch.where(x >= threshold, 255 - x, x)


def posterize(x: Tensor, bits: int) -> Tensor:
    """Keep the highest bits of each pixel."""
    step = 2 ** (8 - bits)
    return (x / step).floor() * step


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Blend with black: a factor of 1 changes nothing."""
    return _blended(torch.zeros_like(x), x, factor)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Blend with the mean grey of the image."""
    return _blended((grey(x).mean((2, 3), keepdim=True) + 0.5).floor(), x, factor)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Blend with the grey image."""
    return _blended(grey(x), x, factor)


def sharpness(x: Tensor, factor: Tensor) -> Tensor:
    """Blend with a smoothed image; the pixels at the edge stay."""
    kernel = torch.ones(3, 3, device=x.device, dtype=x.dtype)
    kernel[1, 1] = 5
    smooth = x.clone()
    inner = F.conv2d(x.flatten(0, 1).unsqueeze(1), (kernel / 13)[None, None])
    smooth[:, :, 1:-1, 1:-1] = inner.view(*x.shape[:2], *inner.shape[2:])
    return _blended(smooth, x, factor)


def grey(x: Tensor) -> Tensor:
    """Return the luminance of colour images, and grey ones as they are. Shape: [B, C, H, W] -> [B, 1, H, W]."""
    if x.shape[1] != len(LUMINANCE):
        return x
    return (x * per_channel(LUMINANCE, x.device).to(x.dtype).view(1, -1, 1, 1)).sum(1, keepdim=True)


def _blended(plain: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    return (plain + factor * (x - plain)).clamp(0, 255)
