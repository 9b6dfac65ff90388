"""Soft targets: a student learns the probabilities of its teacher (Hinton et al. 2015).

    T² · KL( softmax(teacher / T) ‖ softmax(student / T) )        with T², gradients keep their size for every T (§2.1)

The temperature T shows which wrong answers the teacher finds less wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.outputs import LossOutput
from qkv.common.ragged import Ragged
from qkv.objectives.entropy import log_softmax
from qkv.objectives.parts import IGNORED, Soft, count_targets
from qkv.objectives.ragged import highest, ragged_log_softmax

SCALE = 20.0  # of cosines before a softmax, as in Match
LOWEST = -1e4  # a score without any probability; -inf would give NaN


@dataclass(frozen=True)
class Softened:
    """The teacher's probabilities at a temperature.

    Attributes:
        temperature: T.
    """

    temperature: float = 1.0

    def rows(self, logits: Tensor, taught: Tensor, asked: Tensor | None = None) -> Tensor:
        """Return the loss of each row; 0 where it is not asked for. Shape: [T, V], [T, V], [T] -> [T]."""
        log_p, log_q = log_softmax(logits / self.temperature), log_softmax(taught / self.temperature)
        found = self.temperature**2 * F.kl_div(log_p, log_q, reduction="none", log_target=True).sum(-1)
        return found if asked is None else found.masked_fill(~asked, 0)

    def over_sequences(self, scores: Tensor, taught: Tensor, layout: Ragged) -> Tensor:
        """Return the loss of each sequence and column, over its rows. Shape: [T, C], [T, C] -> [B, C]."""
        log_p, log_q = (ragged_log_softmax(x / self.temperature, layout) for x in (scores, taught))
        rows = self.temperature**2 * log_q.exp() * (log_q - log_p)
        return _sums(rows, layout)


@dataclass(frozen=True)
class Hardened:
    """The teacher's answer, as if it were the right one (Touvron et al. 2021, equation 3)."""

    def rows(self, logits: Tensor, taught: Tensor, asked: Tensor | None = None) -> Tensor:
        """Return the loss of each row; 0 where it is not asked for. Shape: [T, V], [T, V], [T] -> [T]."""
        found = F.cross_entropy(logits.float(), taught.argmax(-1), reduction="none")
        return found if asked is None else found.masked_fill(~asked, 0)

    def over_sequences(self, scores: Tensor, taught: Tensor, layout: Ragged) -> Tensor:
        """Return the loss of each sequence and column, over its rows. Shape: [T, C], [T, C] -> [B, C]."""
        best = (taught.float() == highest(taught.float(), layout)[layout.sequence_of]).float()
        chosen = best / _sums(best, layout)[layout.sequence_of]  # equal scores share
        return _sums(-chosen * ragged_log_softmax(scores, layout), layout)


def soft_classes(logits: Tensor, taught: Tensor, wanted: Tensor, how: Soft) -> LossOutput:
    """Compare the classes of the targets that are not ignored; with R-Drop's two passes, of both.

    Shape: [T or 2T, V], [T, V], [T].
    """
    asked = wanted != IGNORED
    if len(logits) == 2 * len(taught) > 0:
        taught, asked = taught.repeat(2, 1), asked.repeat(2)
    return LossOutput(how.rows(logits, taught, asked).sum(), asked.sum())


def soft_numbers(found: Tensor, taught: Tensor, wanted: Tensor) -> LossOutput:
    """Compute the squared error to the teacher's numbers. Shape: [B] each."""
    asked = wanted != IGNORED
    distance = (found.float() - taught.float()).masked_fill(~asked, 0)
    return LossOutput(distance.square().sum(), count_targets(wanted))


def soft_vectors(mine: tuple[Tensor, Tensor], taught: tuple[Tensor, Tensor], asked: Tensor, how: Soft) -> LossOutput:
    """Compare vectors of length 1 of pairs of texts: directly, or by their similarities if the widths differ.

    One width: 1 - cosine, half the squared distance (Reimers & Gurevych 2020, equation 1). Two widths: how similar each
    text is to the other texts of the batch, as a distribution (Passalis & Tefas 2018).

    Shape: [B, D], [B, E], [B].
    """
    if mine[0].shape[-1] == taught[0].shape[-1]:
        rows = sum(1 - (a * b).sum(-1) for a, b in zip(mine, taught, strict=True)) / 2
    else:
        own = torch.eye(2 * len(asked), dtype=torch.bool, device=asked.device)
        alike = ((SCALE * (x @ x.T)).masked_fill(own, LOWEST) for x in (torch.cat(mine), torch.cat(taught)))
        rows = how.rows(*alike).view(2, -1).mean(0)
    assert isinstance(rows, Tensor)
    return LossOutput(rows.masked_fill(~asked, 0).sum(), asked.sum())


def _sums(rows_TC: Tensor, layout: Ragged) -> Tensor:
    """Add up the rows of each sequence. Shape: [T, C] -> [B, C]."""
    return rows_TC.new_zeros(layout.num_sequences, rows_TC.shape[-1]).index_add(0, layout.sequence_of, rows_TC)
