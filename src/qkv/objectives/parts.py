"""What every objective returns: named losses, each a sum over its own targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from qkv.common.batch import IGNORED as IGNORED
from qkv.common.outputs import LossOutput

# A pair of sentences is one target, but it has many masked tokens. So each part is divided by its own count before the
# parts are weighted and added.
Losses = dict[str, LossOutput]


class Objective(Protocol):
    """What to learn: from a model and a batch to losses."""

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each part that a call may return."""

    def counts(self, batch: Any) -> dict[str, Tensor]:
        """The number of targets of each part, before any work: a step of several batches is divided by it."""

    def __call__(self, model: Any, batch: Any) -> Losses:
        """Return the losses of a batch."""


def count_targets(wanted: Tensor) -> Tensor:
    """Count the targets that are not ignored. Shape: [...] -> []."""
    return (wanted != IGNORED).sum()


def weighted(losses: Losses, weights: Mapping[str, float], counts: Mapping[str, Tensor] | None = None) -> Tensor:
    """Return Σ weight · total / count, with gradient.

    Args:
        losses: of one batch or micro-batch.
        weights: the objective's.
        counts: the counts of a whole step, if the batch is only a part of it.
    """
    means = [
        weights[name] * loss.total / (loss.count if counts is None else counts[name]).clamp_min(1)
        for name, loss in losses.items()
    ]
    return torch.stack(means).sum()
