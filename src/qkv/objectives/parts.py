"""What every objective returns: named losses, each a sum over its own targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from qkv.common.batch import IGNORED as IGNORED
from qkv.common.outputs import LossOutput
from qkv.common.ragged import Ragged

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


class Soft(Protocol):
    """What a student learns from the logits of a teacher (`objectives/soft.py`)."""

    def rows(self, logits: Tensor, taught: Tensor, asked: Tensor | None = None) -> Tensor:
        """Return the loss of each row; 0 where it is not asked for. Shape: [T, V], [T, V], [T] -> [T]."""

    def over_sequences(self, scores: Tensor, taught: Tensor, layout: Ragged) -> Tensor:
        """Return the loss of each sequence and column, over its rows. Shape: [T, C], [T, C] -> [B, C]."""


class Teachable(Objective, Protocol):
    """An objective in two halves: what the model says, and what that costs. A student compares the first halves.

    `__call__` is `losses(said(model, batch), batch)`. The loss of `soft` has as many targets as the first part.
    """

    def said(self, model: Any, batch: Any) -> Any:
        """Return what the model says about a batch: logits, or whatever `losses` and `soft` read."""

    def losses(self, said: Any, batch: Any) -> Losses:
        """Return the losses of what a model says."""

    def soft(self, said: Any, taught: Any, batch: Any, how: Soft) -> LossOutput:
        """Return how far what a student says is from what its teacher says."""


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
