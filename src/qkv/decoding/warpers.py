"""What is drawn from: each processor sharpens the scores or leaves out the unlikely tokens (-inf)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from qkv.decoding.logits_processors import History


@dataclass(frozen=True)
class Temperature:
    """Scores divided by the temperature: below 1 the best tokens gain, above 1 the others."""

    temperature: float

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        del history
        return scores / self.temperature


@dataclass(frozen=True)
class TopK:
    """Only the k best tokens, and those equal to the last of them (Fan et al. 2018)."""

    k: int

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        del history
        last = scores.topk(min(self.k, scores.shape[1])).values[:, -1:]
        return scores.masked_fill(scores < last, -math.inf)


@dataclass(frozen=True)
class TopP:
    """Only the fewest best tokens that together hold the share p of the probability (Holtzman et al. 2020)."""

    p: float

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        del history
        falling, order = scores.sort(dim=-1, descending=True)
        share = falling.softmax(-1)
        enough = share.cumsum(-1) - share >= self.p  # the better ones hold the share already
        return scores.masked_fill(enough.scatter(1, order, enough), -math.inf)


@dataclass(frozen=True)
class MinP:
    """Only tokens at least p times as likely as the best (Nguyen et al. 2024)."""

    p: float

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        del history
        return scores.masked_fill(scores < scores.amax(-1, keepdim=True) + math.log(self.p), -math.inf)
