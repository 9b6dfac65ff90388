"""Softmax over the rows of each sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from qkv.common.ragged import Ragged


def ragged_log_softmax(scores_TC: Tensor, layout: Ragged) -> Tensor:
    """Log-probabilities over the rows of each sequence, column by column, in fp32. Shape: [T, C] -> [T, C]."""
    sequence = layout.sequence_of
    scores = scores_TC.float()
    shifted = scores - highest(scores.detach(), layout)[sequence]  # so that no exp overflows
    sums_BC = shifted.new_zeros(layout.num_sequences, scores.shape[-1]).index_add(0, sequence, shifted.exp())
    return shifted - sums_BC.log()[sequence]


def highest(x_TC: Tensor, layout: Ragged) -> Tensor:
    """The highest row of each sequence, column by column. Shape: [T, C] -> [B, C]."""
    sequence = layout.sequence_of.long().unsqueeze(-1).expand_as(x_TC)
    lowest = x_TC.new_full((layout.num_sequences, x_TC.shape[-1]), -torch.inf)
    return lowest.scatter_reduce(0, sequence, x_TC, reduce="amax")
