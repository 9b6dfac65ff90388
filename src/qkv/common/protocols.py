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


class Stepper(Protocol):
    """A model in the middle of decoding: one token in, the scores of the next one out, for each of R rows.

    At first each sequence has one row. Rows of one sequence lie together, in the order of the sequences.
    """

    device: Any

    def step(self, ids: Tensor) -> Tensor:
        """Read a token of each row. Shape: [R] -> [R, V]."""

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held: a row may be repeated, moved within its sequence, or left out.

        Shape: [rows from now on].
        """
