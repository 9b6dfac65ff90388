"""The best answer: the span of tokens whose start and end scores are highest together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Span:
    """Tokens first ... last of a sequence, and the sum of their two scores."""

    first: int
    last: int
    score: float


def best_span(scores: Tensor, allowed: Tensor, *, longest: int = 30) -> Span | None:
    """Find the best span whose ends are both allowed, or None where nothing is.

    Args:
        scores: of each token as start and as end. Shape: [L, 2].
        allowed: which tokens an answer may begin and end with. Shape: [L], bool.
        longest: the most tokens of an answer.
    """
    hidden = ~allowed
    if bool(hidden.all()):
        return None
    start, end = scores.float().masked_fill(hidden.unsqueeze(-1), -torch.inf).unbind(-1)
    length = len(scores)
    both = start.unsqueeze(1) + end.unsqueeze(0)
    inside = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu().tril(longest - 1)
    place = int(both.masked_fill(~inside, -torch.inf).argmax())
    first, last = divmod(place, length)
    return Span(first, last, float(both[first, last]))
