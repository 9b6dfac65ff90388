"""How the next token is chosen from its scores."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

import torch
from torch import Tensor

from qkv.decoding.topk import topk


class Sampler(Protocol):
    """Chooses a token for each row."""

    def __call__(self, scores: Tensor, running: list[int], step: int) -> Tensor:
        """Choose from the scores of each row, given the sequence it belongs to and the step. Shape: [R, V] -> [R]."""


class GreedySampler:
    """The most likely token."""

    def __call__(self, scores: Tensor, running: list[int], step: int) -> Tensor:
        """Choose the best token of each row. Shape: [R, V] -> [R]."""
        del running, step
        return topk(scores, 1)[1].squeeze(1)


class RandomSampler:
    """Samples a token by its probability.

    Each sequence has its own random numbers, so its tokens do not depend on the other sequences of the batch.

    Args:
        seeds: one for each sequence.
        lengths: the most tokens of each.
        device: where the scores will be.
    """

    def __init__(self, seeds: Sequence[int], lengths: Sequence[int], device: torch.device | str | None = None) -> None:
        longest = max(lengths, default=0)
        generators = [Random(seed) for seed in seeds]  # torch's own would read the last 32 bits of a seed only
        drawn = [
            [generator.random() for _ in range(length)] + [0.0] * (longest - length)
            for generator, length in zip(generators, lengths, strict=True)
        ]
        self.drawn = torch.tensor(drawn, dtype=torch.float64, device=device)

    def __call__(self, scores: Tensor, running: list[int], step: int) -> Tensor:
        """Choose from the scores of each row with its number for this step. Shape: [R, V] -> [R]."""
        return sampled(scores, self.drawn[running, step])


def sampled(scores: Tensor, drawn: Tensor) -> Tensor:
    """Choose the token at which the probabilities add up to the drawn number. Shape: [R, V], [R] -> [R]."""
    best = scores.amax(-1, keepdim=True)
    sums = (scores - best).double().exp().cumsum(-1)
    wanted = drawn.unsqueeze(1) * sums[:, -1:]
    found = torch.searchsorted(sums, wanted, right=True).squeeze(1).clamp_max(scores.shape[1] - 1)
    # Where every token is forbidden the sums are NaN; any token will do, because the sequence stops there.
    return torch.where(sums[:, -1] > 0, found, 0)
