"""The most likely next token, again and again."""

from __future__ import annotations

from torch import Tensor

from qkv.decoding.best import best


def likeliest(scores: Tensor, running: list[int], step: int) -> Tensor:
    """Choose the best token of each row. Shape: [R, V] -> [R]."""
    del running, step
    return best(scores, 1)[1].squeeze(1)
