"""ELECTRA: a small generator fills masks, a discriminator says of every token whether it was put there."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from qkv.common.batch import Masked, Tokens
from qkv.common.config import check_range
from qkv.common.errors import UsageError
from qkv.common.protocols import Scored
from qkv.objectives.entropy import binary_cross_entropy, cross_entropy
from qkv.objectives.parts import IGNORED, Losses, number_asked


class Pair(Protocol):
    """A generator with the head "mlm" and a discriminator with the head "replaced"."""

    @property
    def generator(self) -> Scored:
        """Fills the masks."""

    @property
    def discriminator(self) -> Scored:
        """Spots what was filled."""


@dataclass(frozen=True, kw_only=True)
class ReplacedToken:
    """The masked-token loss of the generator plus λ times the discriminator's (Clark et al. 2020, section 2).

        text           the chef cooked the meal
        masked         the [M]  [M]    the meal     generator reads: which words were there?
        filled         the chef ate    the meal     discriminator reads: which were put there? (ate)

    A filled token that happens to be the right one counts as original. No gradient passes through the draw.

    Attributes:
        weight: λ; the discriminator's loss is much the smaller one.
        temperature: of the draw; near 0 the generator's best guess is taken.
    """

    weight: float = 50.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise UsageError(f"temperature must be above 0, got {self.temperature}")
        check_range("weight", self.weight, 0)

    @property
    def weights(self) -> dict[str, float]:
        """λ on the discriminator."""
        return {"mlm": 1.0, "replaced": self.weight}

    def counts(self, batch: Masked) -> dict[str, Tensor]:
        """Count hidden tokens for the generator, all tokens for the discriminator."""
        real = torch.tensor(len(batch.tokens.ids)) if batch.real is None else batch.real
        return {"mlm": number_asked(batch.wanted), "replaced": real}

    def __call__(self, model: Pair, batch: Masked) -> Losses:
        """Fill the masks, then ask every token."""
        hidden = model.generator(batch.tokens)
        scores = model.generator.head("mlm")(hidden.states[batch.rows], model.generator.table)
        filled, replaced = fill(batch, draw(scores, self.temperature))
        verdict = model.discriminator.logits(model.discriminator(filled), "replaced")
        return {"mlm": cross_entropy(scores, batch.wanted), "replaced": binary_cross_entropy(verdict, replaced)}


@torch.no_grad()
def draw(scores: Tensor, temperature: float) -> Tensor:
    """Draw a token for each row: the highest score after Gumbel noise, -log of an exponential. Shape: [M, V] -> [M]."""
    scores = scores.float() / temperature
    return (scores - torch.empty_like(scores).exponential_().log_()).argmax(-1)


def fill(batch: Masked, drawn: Tensor) -> tuple[Tokens, Tensor]:
    """Put drawn tokens where tokens were hidden; returns what is then read, and 1 where it is not the original.

    Nothing is asked of fillers.
    """
    kept = batch.tokens.ids[batch.rows]
    asked = batch.wanted != IGNORED
    original = batch.tokens.ids.index_copy(0, batch.rows, torch.where(asked, batch.wanted, kept))
    filled = original.index_copy(0, batch.rows, torch.where(asked, drawn, kept))
    replaced = (filled != original).long()
    if batch.real is not None:
        place = torch.arange(len(filled), device=filled.device)
        replaced = replaced.masked_fill(place >= batch.real, IGNORED)
    return dataclasses.replace(batch.tokens, ids=filled), replaced
