"""Word vectors: tell real neighbours from negative samples, or predict how often two words occur together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.batch import Counted, Words
from qkv.common.config import check_range
from qkv.common.outputs import LossOutput
from qkv.objectives.parts import IGNORED, Losses, count_targets


class Tables(Protocol):
    """An input vector and an output vector for each word."""

    inputs: Callable[[Tensor], Tensor]
    outputs: Callable[[Tensor], Tensor]


class BiasedTables(Tables, Protocol):
    """And an input and an output bias for each word."""

    input_bias: Callable[[Tensor], Tensor]
    output_bias: Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class SkipGram:
    """From a word to a word near it (Mikolov et al. 2013, equation 4)."""

    @property
    def weights(self) -> dict[str, float]:
        """One part."""
        return {"skip_gram": 1.0}

    def counts(self, batch: Words) -> dict[str, Tensor]:
        """Count the targets."""
        return {"skip_gram": count_targets(batch.outputs)}

    def __call__(self, model: Tables, batch: Words) -> Losses:
        """Score each pair and its noise words."""
        return {"skip_gram": negative_sampling(model, model.inputs(batch.inputs), batch, batch.outputs != IGNORED)}


@dataclass(frozen=True, kw_only=True)
class Cbow:
    """From the mean of the words around it to a word (Mikolov et al. 2013a, section 3.1)."""

    @property
    def weights(self) -> dict[str, float]:
        """One part."""
        return {"cbow": 1.0}

    def counts(self, batch: Words) -> dict[str, Tensor]:
        """Count the words that have neighbours."""
        return {"cbow": self._asked(batch).sum()}

    def __call__(self, model: Tables, batch: Words) -> Losses:
        """Score each word and its noise words; a word without neighbours is ignored."""
        there = batch.inputs >= 0
        around_BCD = model.inputs(batch.inputs.clamp_min(0)) * there.unsqueeze(-1)
        mean_BD = around_BCD.sum(1) / there.sum(1, keepdim=True).clamp_min(1)
        return {"cbow": negative_sampling(model, mean_BD, batch, self._asked(batch))}

    def _asked(self, batch: Words) -> Tensor:
        return (batch.outputs != IGNORED) & (batch.inputs >= 0).any(1)


@dataclass(frozen=True, kw_only=True)
class Glove:
    """The logarithm of how often two words occur together (Pennington et al. 2014, equations 8 and 9).

    Attributes:
        x_max: pairs that occur this often or more have weight 1.
        alpha: rarer pairs have weight (count / x_max) to this power.
    """

    x_max: float = 100.0
    alpha: float = 0.75

    def __post_init__(self) -> None:
        check_range("x_max", self.x_max, 1)
        check_range("alpha", self.alpha, 0)

    @property
    def weights(self) -> dict[str, float]:
        """One part."""
        return {"glove": 1.0}

    def counts(self, batch: Counted) -> dict[str, Tensor]:
        """Count the pairs."""
        return {"glove": count_targets(batch.outputs)}

    def __call__(self, model: BiasedTables, batch: Counted) -> Losses:
        """Σ f(X) (w·w̃ + b + b̃ - log X)² over the pairs."""
        i, j, counts = batch.inputs, batch.outputs, batch.counts.float()
        scores = (model.inputs(i).float() * model.outputs(j).float()).sum(-1)
        scores = scores + (model.input_bias(i) + model.output_bias(j)).squeeze(-1)
        weight = (counts / self.x_max).clamp_max(1) ** self.alpha
        return {"glove": LossOutput((weight * (scores - counts.log()) ** 2).sum(), count_targets(j))}


def negative_sampling(model: Tables, read_BD: Tensor, batch: Words, asked: Tensor) -> LossOutput:
    """-log σ(u·v) - Σ log σ(-u_noise·v) of each row; "correct" counts rows with the true word above all noise.

    A noise word that is the true one is skipped, as in the authors' code: it would be right and wrong at once.
    """
    words_BK = torch.cat([batch.outputs.clamp_min(0).unsqueeze(1), batch.noise], dim=1)
    scores_BK = (read_BD.unsqueeze(1).float() * model.outputs(words_BK).float()).sum(-1)
    true, noise = scores_BK[:, 0], scores_BK[:, 1:]
    same = batch.noise == batch.outputs.unsqueeze(1)
    loss_B = F.softplus(-true) + F.softplus(noise).masked_fill(same, 0).sum(1)  # softplus(-x) = -log σ(x)
    above = (true.detach().unsqueeze(1) > noise.detach()) | same
    sums = {"correct": (above.all(1) & asked).sum()}
    return LossOutput(loss_B.masked_fill(~asked, 0).sum(), asked.sum(), sums)
