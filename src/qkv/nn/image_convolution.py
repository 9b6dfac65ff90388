"""Convolutions over images: a stem for ViT, and the residual blocks of a convolutional network.

Both normalise groups of channels of one image (Wu & He 2018), where the papers use batch norm: so the result for an
image does not depend on the other images of its batch, and there are no running averages to keep.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from qkv.common.errors import UsageError

GROUPS = 8  # groups of channels, or as many as divide their number


def group_norm(channels: int) -> nn.GroupNorm:
    """Make a norm over groups of channels."""
    return nn.GroupNorm(next(n for n in range(min(GROUPS, channels), 0, -1) if channels % n == 0), channels)


class ConvolutionalStem(nn.Sequential):
    """Convolutions of stride 2 down to one row for each patch, then a projection (Xiao et al. 2021).

    Each convolution doubles the channels, up to D; a patch of 2^k pixels takes k of them.
    """

    def __init__(self, channels: int, dim: int, patch_size: int) -> None:
        steps = patch_size.bit_length() - 1
        if patch_size < 2 or 1 << steps != patch_size:
            raise UsageError(f"a convolutional stem needs a patch_size that is a power of 2, got {patch_size}")
        layers: list[nn.Module] = []
        for step in range(steps):
            width = max(1, dim >> (steps - 1 - step))
            layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False), group_norm(width), nn.ReLU()]
            channels = width
        super().__init__(*layers, nn.Conv2d(channels, dim, 1))


class ResidualBlock(nn.Module):
    """x + conv(norm(conv(norm(x)))), each norm followed by ReLU (He et al. 2016, "Identity mappings")."""

    def __init__(self, channels: int, dim: int, *, stride: int = 1) -> None:
        super().__init__()
        self.first_norm, self.second_norm = group_norm(channels), group_norm(dim)
        self.first = nn.Conv2d(channels, dim, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(dim, dim, 3, padding=1, bias=False)
        same = stride == 1 and channels == dim
        self.shortcut: nn.Module = nn.Identity() if same else nn.Conv2d(channels, dim, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: [B, C, H, W] -> [B, dim, H / stride, W / stride]."""
        y = self.second(F.relu(self.second_norm(self.first(F.relu(self.first_norm(x))))))
        return self.shortcut(x) + y
