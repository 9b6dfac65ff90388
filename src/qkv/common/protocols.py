"""What objectives and decoding know of a model."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from qkv.common.outputs import Hidden


class Scored(Protocol):
    """A model whose states can be scored by its heads."""

    def __call__(self, batch: Any) -> Hidden:
        """Compute the states of a batch."""

    def encoder_states(self, batch: Any) -> Hidden:
        """Compute the states of what is read: of the source, where there is an encoder and a decoder."""

    def states_for(self, batch: Any, name: str | None = None) -> Hidden:
        """Compute the states that a head reads, which may be fewer."""

    def states_at(self, batch: Any, rows: Tensor) -> Tensor:
        """Compute the states of some rows. Shape: [M] -> [M, D]."""

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
        """Read a token of each row; the scores are the caller's to change. Shape: [R] -> [R, V]."""

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held: a row may be repeated, moved within its sequence, or left out.

        Shape: [rows from now on].
        """

    def fixed(self, beams: int, longest: int) -> Any | None:
        """Return the same with shapes that never change, for a recorded search, or None where that can not be."""
