"""A model and its objective as one module: a batch in, losses out."""

from __future__ import annotations

from typing import Any

from torch import nn

from qkv.objectives.parts import Losses


class Learner(nn.Module):
    """The module that the loop calls and that a distributed run wraps.

    Objectives call other methods of a model besides `forward` (`states_at`, `logits`), but DDP and FSDP2 hook into
    `forward`. Here `forward` covers everything from a batch to its losses.
    """

    def __init__(self, model: nn.Module, objective: Any) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Any) -> Losses:
        """Compute the losses of a batch."""
        return self.objective(self.model, batch)
