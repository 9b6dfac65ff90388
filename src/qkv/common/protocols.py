"""What objectives and decoding need from a model."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from qkv.common.outputs import Hidden


class Scored(Protocol):
    """A model with hidden states and heads over them."""

    def __call__(self, batch: Any) -> Hidden:
        """Compute the hidden states of a batch."""

    def encoder_states(self, batch: Any) -> Hidden:
        """Compute the hidden states of the input; in an encoder-decoder, those of the source."""

    def states_for(self, batch: Any, name: str | None = None) -> Hidden:
        """Compute the hidden states that a head reads, which may be fewer."""

    def states_at(self, batch: Any, rows: Tensor) -> Tensor:
        """Compute the hidden states of some rows. Shape: [M] -> [M, D]."""

    def head(self, name: str | None = None) -> Any:
        """Return a head."""

    def logits(self, hidden: Hidden, name: str | None = None) -> Tensor:
        """Compute the logits of a head."""

    @property
    def table(self) -> Tensor:
        """The token table that tied heads read. Shape: [V, E]."""


class Stepper(Protocol):
    """A model during decoding: one token in, the logits of the next one out, for each of R rows.

    At first each sequence has one row. The rows of a sequence are next to each other, in the order of the sequences.
    """

    device: Any

    def step(self, ids: Tensor) -> Tensor:
        """Read a token of each row. The caller may change the logits in place. Shape: [R] -> [R, V]."""

    def best(self, ids: Tensor, count: int) -> tuple[Tensor, Tensor] | None:
        """Read a token of each row; return the `count` best log-probabilities of the next one and their tokens.

        None, and nothing is read, if the stepper does not choose: `step` then gives the logits of all tokens.

        Shape: [R] -> [R, count] each, best first.
        """

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held: a row may be repeated, moved within its sequence, or left out.

        Shape: [rows from now on].
        """

    def fixed(self, beams: int, longest: int) -> Any | None:
        """Return a stepper of static shapes for a recorded search, or None if there is none."""


class PromptStepper(Stepper, Protocol):
    """A stepper after prompts.

    Attributes:
        first: the last token of each prompt, for the first step. Shape: [B].
    """

    first: Tensor

    def join(self, prompts: Any) -> None:
        """Read more prompts, whose rows follow those that are here; `first` is then theirs."""
