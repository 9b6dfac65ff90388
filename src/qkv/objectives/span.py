"""Extractive question answering: where the answer starts and ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from qkv.common.batch import Spans
from qkv.common.outputs import LossOutput
from qkv.common.protocols import Scored
from qkv.objectives.parts import Losses, Soft
from qkv.objectives.r_drop import RDrop, divergence
from qkv.objectives.ragged import highest, ragged_log_softmax


@dataclass(frozen=True, kw_only=True)
class AnswerSpan(RDrop):
    """A softmax over the tokens of each sequence for the start, another for the end (Devlin et al. 2019, section 4.2).

    A sequence's loss is the mean of the two. A span outside its sequence (-100, or cut off) is ignored.
    """

    part: ClassVar[str] = "span"

    def num_targets(self, batch: Spans) -> Tensor:
        """Count the spans within their sequences."""
        return _inside(batch).sum()

    def __call__(self, model: Scored, batch: Spans) -> Losses:
        """Score every row as a start and as an end; "correct" counts sequences with both right."""
        return self.losses(self.said(model, batch), batch)

    def said(self, model: Scored, batch: Spans) -> Tensor:
        """Score every row as a start and as an end, of both passes where there are two. Shape: [T or 2T, 2]."""
        return model.logits(model(batch.tokens.twice() if self.two_passes else batch.tokens), "span")

    def soft(self, said: Tensor, taught: Tensor, batch: Spans, how: Soft) -> LossOutput:
        """Compare where each answer may start and end; a sequence's loss is the mean of the two."""
        asked, layout = _inside(batch), batch.tokens.layout
        if self.two_passes:
            taught, layout, asked = taught.repeat(2, 1), layout.twice(), asked.repeat(2)
        rows = how.over_sequences(said, taught, layout).mean(-1)
        return LossOutput(rows.masked_fill(~asked, 0).sum(), asked.sum())

    def losses(self, said: Tensor, batch: Spans) -> Losses:
        """Compute the cross-entropy of starts and ends and, of two passes, their distance."""
        one = batch
        if self.two_passes:
            batch = Spans(batch.tokens.twice(), batch.starts.repeat(2), batch.ends.repeat(2))
        layout = batch.tokens.layout
        log_p_T2 = ragged_log_softmax(said, layout)
        wanted_B2 = torch.stack([batch.starts, batch.ends], dim=-1)
        asked = _inside(batch)
        rows_B2 = layout.first.unsqueeze(-1) + wanted_B2.masked_fill(~asked.unsqueeze(-1), 0)
        found_B2 = log_p_T2.gather(0, rows_B2)
        best = found_B2.detach() == highest(log_p_T2.detach(), layout)
        total = -found_B2.mean(-1).masked_fill(~asked, 0).sum()
        span = LossOutput(total, asked.sum(), {"correct": (best.all(-1) & asked).sum()})
        return {"span": span, "r_drop": distance(log_p_T2, one)} if self.two_passes else {"span": span}


def distance(log_p_2T2: Tensor, batch: Spans) -> LossOutput:
    """Half the two KL divergences of the starts and of the ends of each sequence, their mean. Shape: [2T, 2]."""
    asked, sequence = _inside(batch), batch.tokens.layout.sequence_of
    rows = divergence(log_p_2T2).mean(-1)
    return LossOutput(rows.masked_fill(~asked[sequence], 0).sum(), asked.sum())


def _inside(batch: Spans) -> Tensor:
    """Which spans are within their sequences; the row of another would be in a neighbour. Shape: [B]."""
    lengths = batch.tokens.layout.lengths
    return (batch.starts >= 0) & (batch.starts < lengths) & (batch.ends >= 0) & (batch.ends < lengths)
