"""Answer spans: those whose start and end scores have the highest sum."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LONGEST = 30  # tokens of an answer


def best_spans(scores_L2: Tensor, allowed: Tensor, count: int, longest: int = LONGEST) -> list[tuple[float, int, int]]:
    """Return score, first token and last token of the best spans, best first.

    Args:
        scores_L2: of each token as start and as end.
        allowed: which tokens a span may begin and end with. Shape: [L].
        count: the most spans.
        longest: the most tokens of a span.
    """
    start, end = scores_L2.masked_fill(~allowed.unsqueeze(-1), -torch.inf).unbind(-1)
    ends = F.pad(end, (0, longest - 1), value=-torch.inf).unfold(0, longest, 1)  # [L, longest]
    best = (start.unsqueeze(-1) + ends).flatten().topk(min(count, ends.numel()))
    found = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return [(score, i // longest, i // longest + i % longest) for score, i in found if score > -torch.inf]
