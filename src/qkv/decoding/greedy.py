"""The most likely next token, again and again."""

from __future__ import annotations

import torch
from torch import Tensor

from qkv.common.protocols import Stepper


@torch.inference_mode()
def greedy(stepper: Stepper, *, start_id: int, end_id: int, max_lengths: list[int]) -> list[list[int]]:
    """Decode every sequence of a batch to its end token, or to its own longest length.

    Args:
        stepper: a model with its sources read.
        start_id: the first token the decoder reads.
        end_id: the token that ends a sequence; it is not returned.
        max_lengths: the most tokens each sequence may have.
    """
    batch = len(max_lengths)
    ids = torch.full((batch,), start_id, device=stepper.device)
    limits = torch.tensor(max_lengths, device=stepper.device)
    found: list[Tensor] = []
    running = limits > 0
    while bool(running.any()):
        ids = stepper.step(ids).argmax(-1)
        running = running & (ids != end_id)
        found.append(torch.where(running, ids, -1))
        running = running & (len(found) < limits)
    columns = torch.stack(found, dim=1).tolist() if found else [[] for _ in range(batch)]
    return [[token for token in row if token >= 0] for row in columns]
