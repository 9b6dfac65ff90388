"""Windowed attention block by block: n · window products for each head instead of n².

keys      | 0 | 1 | 2 | 3 |         blocks at least as long as the window
queries           ^^^               those of block 2 see the keys of blocks 1 to 3; a causal window needs no block 3

(Beltagy et al. 2020, section 3.1, "sliding chunks".) A mask over all pairs gives the same numbers and saves nothing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

SHORTEST = 32  # of a block: smaller products are not faster
PAYS = 4  # blocks from which on it is faster than masking the whole square


def pays(length: int, window: int) -> bool:
    """Whether a sequence is long enough to be cut into blocks."""
    return length >= PAYS * max(window, SHORTEST)


def attend(
    q: Tensor, k: Tensor, v: Tensor, sizes: Tensor | None, *, window: int, causal: bool, scale: float, dropout: float
) -> Tensor:
    """Compute attention within a window.

    Args:
        q: Shape: [b, N, L, H].
        k: Shape: [b, N, L, H].
        v: Shape: [b, N, L, H].
        sizes: how many keys each sequence has, or None for all L. Shape: [b, 1].
        window: the largest distance between a query and a key.
        causal: whether a query sees no later key.
        scale: the factor for q·k.
        dropout: the share of attention weights to drop.

    Returns:
        Shape: [b, N, L, H].
    """
    length, block = q.shape[2], max(window, SHORTEST)
    spare = -length % block
    rows, keys, values = (F.pad(x, (0, 0, 0, spare)).unflatten(2, (-1, block)) for x in (q, k, v))
    seen = _seen(length, block, sizes, window=window, causal=causal, device=q.device)
    out = F.scaled_dot_product_attention(
        rows.transpose(1, 2).flatten(0, 1),
        _with_neighbours(keys, causal=causal),
        _with_neighbours(values, causal=causal),
        attn_mask=seen.expand(q.shape[0], -1, -1, -1).flatten(0, 1).unsqueeze(1),
        dropout_p=dropout,
        scale=scale,
    )
    return out.unflatten(0, (q.shape[0], -1)).transpose(1, 2).flatten(2, 3)[:, :, :length]


def _with_neighbours(x: Tensor, *, causal: bool) -> Tensor:
    """Join each block with those beside it. Shape: [b, N, C, W, H] -> [b · C, N, 2-3 W, H]."""
    before = F.pad(x, (0, 0, 0, 0, 1, 0))[:, :, :-1]
    after = [] if causal else [F.pad(x, (0, 0, 0, 0, 0, 1))[:, :, 1:]]
    return torch.cat([before, x, *after], dim=3).transpose(1, 2).flatten(0, 1)


def _seen(length: int, block: int, sizes: Tensor | None, *, window: int, causal: bool, device: torch.device) -> Tensor:
    """Which keys the queries of each block see. Shape: [1 or b, C, W, 2-3 W], bool."""
    starts = torch.arange(0, length, block, device=device).view(1, -1, 1, 1)
    i = torch.arange(block, device=device).view(-1, 1)
    j = torch.arange(-block, block if causal else 2 * block, device=device)
    near = (j - i <= (0 if causal else window)) & (j - i >= -window)
    end = length if sizes is None else sizes.view(-1, 1, 1, 1)
    seen = near & (starts + j >= 0) & (starts + j < end)
    return seen | ~seen.any(-1, keepdim=True)  # a filler sees everything: nothing at all would give NaN
