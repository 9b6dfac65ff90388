"""The k highest scores of each row, and the normaliser that makes them log-probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

WIDTH = 64
NEAR = 8  # rows of logits that fit into a core's own cache


def topk(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k highest scores and their tokens, in falling order. Shape: [R, V] -> [R, k] each.

    The k best tokens are in the k blocks with the highest maxima (or in the rest after the last block). On a CPU,
    sorting is slow and a maximum is fast, so only those blocks are sorted.
    """
    blocks = scores.shape[1] // WIDTH
    if scores.device.type != "cpu" or blocks < 4 * k:
        values, ids = scores.topk(k)
        return values, ids
    body, rest = scores[:, : blocks * WIDTH].unflatten(1, (blocks, WIDTH)), scores[:, blocks * WIDTH :]
    chosen = body.amax(-1).topk(k).indices  # [R, k]
    cells = body.gather(1, chosen.unsqueeze(-1).expand(-1, -1, WIDTH)).flatten(1)
    values, place = torch.cat([cells, rest], 1).topk(k)
    inside = chosen.gather(1, (place // WIDTH).clamp_max(k - 1)) * WIDTH + place % WIDTH
    return values, torch.where(place < k * WIDTH, inside, place + (blocks - k) * WIDTH)


def logsumexp(logits: Tensor) -> Tensor:
    """Return log Σ exp of each row: a logit less it is a log-probability. Shape: [R, V] -> [R, 1].

    On a CPU it takes a few rows at a time, so that intermediate results stay in the cache.
    """
    some = logits.split(NEAR) if logits.device.type == "cpu" else [logits]
    return torch.cat([rows.logsumexp(-1, keepdim=True) for rows in some])
