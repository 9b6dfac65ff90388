"""Attention as a page stores it: weights in 8 bits, thumbnails, and the q and k behind them, compressed by layer."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.insight.look import Part
from qkv.nn import kernels
from qkv.nn.kernels import Call

SIDE = 48  # pixels of a thumbnail, at most
LEVEL = 1  # of zlib: level 6 takes four times as long and saves a tenth


@dataclass(frozen=True, eq=False)
class LayerMaps:
    """One layer of a part.

    Attributes:
        weights: the root of each weight, times 255. None if the layer is not stored. Shape: [N, L, S], uint8.
        thumbs: the same as thumbnails; a pixel is the largest weight it covers. Shape: [N, h, w], uint8.
        mean: the mean over the heads, as it is. Shape: [L, S].
    """

    weights: Tensor | None
    thumbs: Tensor
    mean: Tensor


def layer_maps(part: Part, stored: set[int]) -> Iterator[LayerMaps]:
    """Compute the maps of each layer, one head at a time, so that memory does not grow with heads and layers."""
    for layer in range(part.num_layers):
        size = (part.num_heads, len(part.rows), len(part.columns))
        kept = torch.empty(size, dtype=torch.uint8) if layer in stored else None
        thumbs, total = [], torch.zeros(())
        for head in range(part.num_heads):
            weights = part.weights(layer, head)
            total = total.to(weights.device) + weights
            thumbs.append(eight_bits(_thumbnail(weights)))
            if kept is not None:
                kept[head] = eight_bits(weights)
        yield LayerMaps(kept, torch.stack(thumbs), total / part.num_heads)


def eight_bits(weights: Tensor) -> Tensor:
    """Store the root of each weight: 8 bits then tell weights down to 1 in 65,000 from nothing."""
    return weights.clamp(0, 1).sqrt_().mul_(255).round_().to(torch.uint8).cpu()


def chosen(number: int, room: int, first: int) -> set[int]:
    """Choose the layers to store where not all fit: evenly from the first to the last, with `first` among them."""
    if room >= number or room < 1:
        return set(range(number if room > 0 else 0))
    spread = {round(i * (number - 1) / max(room - 1, 1)) for i in range(room)}
    nearest = min(spread, key=lambda layer: abs(layer - first))
    return spread - {nearest} | {first}


def projections(call: Call) -> Tensor:
    """Return q and then k as one row of numbers, as the softmax step by step needs them. Float16."""
    return torch.cat([call.q.flatten(), call.k.flatten()]).half()


def bias_of(call: Call) -> Tensor | None:
    """Return what a position scheme adds to the scores, or None. Shape: [N, L, S], float16."""
    if call.bias is None:
        return None
    return kernels.biases(call)[0].half()


def packed(values: Tensor) -> str:
    """Compress the bytes of a tensor, as text for a page."""
    return base64.b64encode(zlib.compress(values.detach().cpu().contiguous().numpy().tobytes(), LEVEL)).decode()


def _thumbnail(weights: Tensor) -> Tensor:
    rows, columns = (-(-size // SIDE) for size in weights.shape)
    if rows == columns == 1:
        return weights
    return F.max_pool2d(weights[None, None], (rows, columns), ceil_mode=True)[0, 0]
