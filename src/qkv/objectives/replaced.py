"""ELECTRA: a small generator fills masks, and a discriminator finds the tokens that were replaced."""

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
from qkv.objectives.parts import IGNORED, Losses, count_targets


class Pair(Protocol):
    """A generator with the head "mlm" and a discriminator with the head "replaced"."""

    @property
    def generator(self) -> Scored:
        """Fills the masks."""

    @property
    def discriminator(self) -> Scored:
        """Finds replaced tokens."""


@dataclass(frozen=True, kw_only=True)
class ReplacedToken:
    """The masked-token loss of the generator plus λ times the discriminator's (Clark et al. 2020, section 2).

        text           the chef cooked the meal
        masked         the [M]  [M]    the meal     generator: which words were there?
        filled         the chef ate    the meal     discriminator: which were replaced? (ate)

    A filled token that happens to be the right one counts as original. No gradient passes through the sampling.

    Attributes:
        weight: λ, the weight of the discriminator's loss, which is much smaller than the generator's.
        temperature: the sampling temperature of the generator. Near 0 it takes the most likely token.
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
        """Count masked tokens for the generator, all tokens for the discriminator."""
        real = torch.tensor(len(batch.tokens.ids)) if batch.real is None else batch.real
        return {"mlm": count_targets(batch.wanted), "replaced": real}

    def __call__(self, model: Pair, batch: Masked) -> Losses:
        """Fill the masks, then classify every token."""
        hidden = model.generator(batch.tokens)
        scores = model.generator.head("mlm")(hidden.states[batch.rows], model.generator.table)
        filled, replaced = fill(batch, draw(scores, self.temperature))
        verdict = model.discriminator.logits(model.discriminator(filled), "replaced")
        return {"mlm": cross_entropy(scores, batch.wanted), "replaced": binary_cross_entropy(verdict, replaced)}


@torch.no_grad()
def draw(scores: Tensor, temperature: float) -> Tensor:
    """Sample a token per row: the highest score with Gumbel noise, -log of an exponential. Shape: [M, V] -> [M]."""
    scores = scores.float() / temperature
    return (scores - torch.empty_like(scores).exponential_().log_()).argmax(-1)


def fill(batch: Masked, drawn: Tensor) -> tuple[Tokens, Tensor]:
    """Put sampled tokens in the place of masks; returns the tokens, and 1 where one is not the original.

    Fillers have no target.
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
