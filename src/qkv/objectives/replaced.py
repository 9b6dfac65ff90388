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

    ELECTRA's discriminator never sees a mask, so it cannot fill one. With `keep_every`, some masks stay in its input,
    and a head "mlm" of its own says which words were there:

        kept           the [M]  ate    the meal     discriminator: "chef"; ate was replaced

    Masked tokens are drawn at random, so every fourth of them is a random quarter, and their number is known in
    advance.

    Attributes:
        weight: λ, the weight of the discriminator's loss, which is much smaller than the generator's.
        temperature: the sampling temperature of the generator. Near 0 it takes the most likely token.
        keep_every: every n-th masked token stays masked for the discriminator. 0 means none.
    """

    weight: float = 50.0
    temperature: float = 1.0
    keep_every: int = 0

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise UsageError(f"temperature must be above 0, got {self.temperature}")
        check_range("weight", self.weight, 0)
        check_range("keep_every", self.keep_every, 0)

    @property
    def weights(self) -> dict[str, float]:
        """λ on the discriminator."""
        return {"mlm": 1.0, "replaced": self.weight} | ({"fill": 1.0} if self.keep_every else {})

    def counts(self, batch: Masked) -> dict[str, Tensor]:
        """Count masked tokens for the generator, all tokens for the discriminator."""
        real = torch.tensor(len(batch.tokens.ids)) if batch.real is None else batch.real
        counts = {"mlm": count_targets(batch.wanted), "replaced": real}
        if self.keep_every:
            kept = count_targets(batch.wanted[:: self.keep_every])
            counts |= {"replaced": real - kept, "fill": kept}
        return counts

    def __call__(self, model: Pair, batch: Masked) -> Losses:
        """Fill the masks, then classify every token."""
        hidden = model.generator(batch.tokens)
        scores = model.generator.head("mlm")(hidden.states[batch.rows], model.generator.table)
        filled, replaced = fill(batch, draw(scores, self.temperature), self.keep_every)
        seen = model.discriminator(filled)
        verdict = model.discriminator.logits(seen, "replaced")
        losses = {"mlm": cross_entropy(scores, batch.wanted), "replaced": binary_cross_entropy(verdict, replaced)}
        if self.keep_every:
            rows, wanted = batch.rows[:: self.keep_every], batch.wanted[:: self.keep_every]
            said = model.discriminator.head("mlm")(seen.states[rows], model.discriminator.table)
            losses["fill"] = cross_entropy(said, wanted)
        return losses


@torch.no_grad()
def draw(scores: Tensor, temperature: float) -> Tensor:
    """Sample a token per row: the highest score with Gumbel noise, -log of an exponential. Shape: [M, V] -> [M]."""
    scores = scores.float() / temperature
    return (scores - torch.empty_like(scores).exponential_().log_()).argmax(-1)


def fill(batch: Masked, drawn: Tensor, keep_every: int = 0) -> tuple[Tokens, Tensor]:
    """Put sampled tokens in the place of masks; returns the tokens, and 1 where one is not the original.

    Fillers have no target, and nor have masks that stay.
    """
    read = batch.tokens.ids[batch.rows]
    asked = batch.wanted != IGNORED
    original = batch.tokens.ids.index_copy(0, batch.rows, torch.where(asked, batch.wanted, read))
    filled = original.index_copy(0, batch.rows, torch.where(asked, drawn, read))
    replaced = (filled != original).long()
    if keep_every:
        stays, asked = batch.rows[::keep_every], asked[::keep_every]
        filled = filled.index_copy(0, stays, read[::keep_every])
        replaced = replaced.index_copy(0, stays, torch.where(asked, IGNORED, replaced[stays]))
    if batch.real is not None:
        place = torch.arange(len(filled), device=filled.device)
        replaced = replaced.masked_fill(place >= batch.real, IGNORED)
    return dataclasses.replace(batch.tokens, ids=filled), replaced
