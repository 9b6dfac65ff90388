"""How similar two layers represent the same tokens: linear CKA (Kornblith et al. 2019), of one model or of two.

CKA ignores rotations and a common scale, so it compares layers of different models and widths. The plain estimate is
too high if there are fewer tokens than dimensions. HSIC is therefore estimated without bias (Song et al. 2012), as
Nguyen et al. 2021 do: the Gram matrices are U-centred (Székely & Rizzo 2014), and the rest is a cosine.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from qkv.common.errors import UsageError

ROWS = 1024  # tokens that are compared: a Gram matrix of each layer is held


def layer_similarity(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Return the CKA of each layer of one model with each layer of another.

    Args:
        first: the states of each layer; row i of all layers of both models is the same token. Shape of each: [T, D].
        second: those of the other model.

    Returns:
        About 0 for unrelated layers, 1 for layers that are equal up to rotation and scale. Shape: [layers, layers].
    """
    rows = {len(x) for x in (*first, *second)}
    if len(rows) != 1 or min(rows) < 4:
        raise UsageError(f"CKA compares the same tokens, at least 4; got {', '.join(map(str, sorted(rows))) or 'none'}")
    chosen = torch.linspace(0, min(rows) - 1, min(*rows, ROWS)).round().long()
    return _centred(first, chosen) @ _centred(second, chosen).T


def _centred(layers: Sequence[Tensor], rows: Tensor) -> Tensor:
    """Return the U-centred Gram matrix of each layer as a unit vector. Shape: [layers, n²]."""
    kept = (x_TD[rows.to(x_TD.device)].double().cpu() for x_TD in layers)
    return torch.stack([normalize(_u_centred(x_nD).flatten(), dim=0) for x_nD in kept])


def _u_centred(x_nD: Tensor) -> Tensor:
    """Shape: [n, D] -> [n, n]."""
    x_nD = x_nD - x_nD.mean(0)  # changes nothing but the rounding
    gram, n = x_nD @ x_nD.T, len(x_nD)
    gram.fill_diagonal_(0.0)
    sums = gram.sum(0) / (n - 2)
    gram = gram - sums - sums.unsqueeze(1) + sums.sum() / (n - 1)
    return gram.fill_diagonal_(0.0)
