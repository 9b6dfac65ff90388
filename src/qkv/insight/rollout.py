"""Attention rollout: how much of each input token reaches each position through all layers (Abnar & Zuidema 2020)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from qkv.common.errors import UsageError


def rollout(weights: Iterable[Tensor]) -> Tensor:
    """Multiply the layers' attention, from the first layer to the last; the residual connection counts as half.

    Ã_l = (mean over the heads of W_l + I) / 2, and the result is Ã_n · … · Ã_1. Its rows sum to 1.

    Args:
        weights: the self-attention of each layer. Shape of each: [N, L, L].

    Returns:
        Shape: [L, L].
    """
    found: Tensor | None = None
    for weights_NLL in weights:
        if weights_NLL.dim() != 3 or weights_NLL.shape[1] != weights_NLL.shape[2]:
            raise UsageError(f"rollout takes self-attention [heads, L, L], got {list(weights_NLL.shape)}")
        mean = weights_NLL.float().mean(0)
        mixed = (mean + torch.eye(len(mean), device=mean.device)) / 2
        found = mixed if found is None else mixed @ found
    if found is None:
        raise UsageError("rollout takes the attention of at least one layer, got none")
    return found
