"""Tokens drawn by their probability."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import torch
from torch import Tensor


class Sample:
    """Draws a token for each row, from a row of random numbers that belongs to its sequence alone.

    So a sequence says the same whoever is beside it, and whoever has left the batch.

    Args:
        seeds: one for each sequence.
        lengths: the most tokens of each.
        device: where the scores will be.
    """

    def __init__(self, seeds: Sequence[int], lengths: Sequence[int], device: torch.device | str | None = None) -> None:
        longest = max(lengths, default=0)
        dice = [Random(seed) for seed in seeds]  # torch's own generator would read the last 32 bits of a seed only
        drawn = [
            [die.random() for _ in range(length)] + [0.0] * (longest - length)
            for die, length in zip(dice, lengths, strict=True)
        ]
        self.drawn = torch.tensor(drawn, dtype=torch.float64, device=device)

    def __call__(self, scores: Tensor, running: list[int], step: int) -> Tensor:
        """Choose the token at which the probabilities add up to the drawn number. Shape: [R, V] -> [R]."""
        best = scores.amax(-1, keepdim=True)
        sums = (scores - best).double().exp().cumsum(-1)
        wanted = self.drawn[running, step].unsqueeze(1) * sums[:, -1:]
        found = torch.searchsorted(sums, wanted, right=True).squeeze(1).clamp_max(scores.shape[1] - 1)
        # Where everything is forbidden the sums are not numbers; any token will do, for the sequence stops there.
        return torch.where(sums[:, -1] > 0, found, 0)
