"""Sentence embeddings: texts that belong together should be close together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.batch import SentencePairs, Tokens
from qkv.common.errors import UsageError
from qkv.common.outputs import LossOutput
from qkv.common.protocols import Scored
from qkv.objectives.entropy import cross_entropy, squared_error
from qkv.objectives.parts import IGNORED, Losses, Soft, count_targets
from qkv.objectives.soft import soft_vectors

Vectors = tuple[Tensor, Tensor]  # a vector for each text of a pair


@dataclass(frozen=True, kw_only=True)
class _Vectors:
    """Base of objectives over the vectors of pairs of texts."""

    def __call__(self, model: Scored, batch: SentencePairs) -> Losses:
        """Compute a vector for each text, and their loss."""
        return self.losses(self.said(model, batch), batch)

    def said(self, model: Scored, batch: SentencePairs) -> Vectors:
        """Compute a vector for each text. Shape: [B, D] each."""
        return sentences(model, batch.first), sentences(model, batch.second)

    def losses(self, said: Vectors, batch: SentencePairs) -> Losses:
        """Compute the loss."""
        raise NotImplementedError

    def soft(self, said: Vectors, taught: Vectors, batch: SentencePairs, how: Soft) -> LossOutput:
        """Compare vectors."""
        return soft_vectors(said, taught, self.asked(batch), how)

    def asked(self, batch: SentencePairs) -> Tensor:
        """Return which pairs count. Shape: [B], bool."""
        return torch.ones(batch.first.layout.num_sequences, dtype=torch.bool, device=batch.first.ids.device)


@dataclass(frozen=True, kw_only=True)
class Match(_Vectors):
    """Find each text's partner in the batch, both ways (Henderson et al. 2017; Reimers & Gurevych 2019).

    All other partners are negatives, so a larger batch is harder, and the loss of a batch is not the sum of the losses
    of its parts: micro-batches change what is learned.

    Attributes:
        scale: what cosines are multiplied by before the softmax; 1 / temperature.
    """

    scale: float = 20.0

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise UsageError(f"scale must be above 0, got {self.scale:g}")

    @property
    def weights(self) -> dict[str, float]:
        """One part."""
        return {"match": 1.0}

    def counts(self, batch: SentencePairs) -> dict[str, Tensor]:
        """Count the pairs."""
        return {"match": torch.tensor(batch.first.layout.num_sequences)}

    def losses(self, said: Vectors, batch: SentencePairs) -> Losses:
        """The mean of the two directions; so is "correct"."""
        del batch
        scores_BB = self.scale * cosines(*said)
        partners = torch.arange(len(scores_BB), device=scores_BB.device)
        there, back = cross_entropy(scores_BB, partners), cross_entropy(scores_BB.T, partners)
        correct = (there.sums["correct"] + back.sums["correct"]) / 2
        return {"match": LossOutput((there.total + back.total) / 2, there.count, {"correct": correct})}


@dataclass(frozen=True, kw_only=True)
class CosineScore(_Vectors):
    """Regression of the cosine of two texts to their score, by squared error (Reimers & Gurevych 2019, section 3)."""

    @property
    def weights(self) -> dict[str, float]:
        """One part."""
        return {"cosine": 1.0}

    def counts(self, batch: SentencePairs) -> dict[str, Tensor]:
        """Count the pairs with a score."""
        return {"cosine": count_targets(self._scores(batch))}

    def losses(self, said: Vectors, batch: SentencePairs) -> Losses:
        """Compare row by row."""
        return {"cosine": squared_error((said[0] * said[1]).sum(-1), self._scores(batch))}

    def asked(self, batch: SentencePairs) -> Tensor:
        """Return which pairs have a score. Shape: [B], bool."""
        return self._scores(batch) != IGNORED

    def _scores(self, batch: SentencePairs) -> Tensor:
        if batch.scores is None:
            raise UsageError("learning cosines needs scores, and the batch has none")
        return batch.scores


def sentences(model: Scored, tokens: Tokens) -> Tensor:
    """One vector of length 1 per text: the mean of its rows, in fp32. Shape: [B, D]."""
    hidden = model(tokens)
    return F.normalize(hidden.layout.mean(hidden.states.float()), dim=-1)


def cosines(a_BD: Tensor, b_BD: Tensor) -> Tensor:
    """Compare all pairs, in fp32 even under autocast: near 1, bf16 has steps of 0.004. Shape: [B, B]."""
    with torch.autocast(a_BD.device.type, enabled=False):
        return a_BD @ b_BD.T
