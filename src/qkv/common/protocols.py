"""What objectives and decoding know of a model."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from qkv.common.outputs import Hidden


class Scored(Protocol):
    """A model whose states can be scored by its heads."""

    def __call__(self, batch: Any) -> Hidden:
        """Compute the states of a batch."""

    def head(self, name: str | None = None) -> Any:
        """Return a head."""

    def logits(self, hidden: Hidden, name: str | None = None) -> Tensor:
        """Score states."""

    @property
    def table(self) -> Tensor:
        """The token table that tied heads read. Shape: [V, E]."""


class Objective(Protocol):
    """What to learn: a model and a batch to a loss."""

    def __call__(self, model: Any, batch: Any) -> Any:
        """Return a `LossOutput`."""
