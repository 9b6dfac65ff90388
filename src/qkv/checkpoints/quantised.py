"""Weights in int8: a matrix is stored as whole numbers from -127 to 127 and one scale for each row.

w ≈ q · scale, with scale = max |w| / 127 of the row: an output of a product, a token of an embedding table
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from qkv.common.errors import QkvError

SCALE = ".scale"
LEAST = 16_384  # elements: smaller matrices (a classifier's) save nothing


def quantise(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Replace each large matrix by its whole numbers and its scales."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 2 and tensor.numel() >= LEAST:
            scale = tensor.abs().amax(1) / 127
            inverse = torch.where(scale > 0, 1 / scale, 0.0)
            found[name] = (tensor * inverse.unsqueeze(1)).round().to(torch.int8)
            found[name + SCALE] = scale
        else:
            found[name] = tensor
    return found


def restore(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Undo `quantise`, up to rounding."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dtype == torch.int8:
            scale = tensors.get(name + SCALE)
            if scale is None or scale.shape != tensor.shape[:1]:
                raise QkvError(f"the int8 weights {name} need one scale for each of their {len(tensor)} rows")
            found[name] = tensor.float() * scale.float().unsqueeze(1)
        elif not name.endswith(SCALE):
            found[name] = tensor
    return found
