"""Logits processors: each takes the scores of the next token and the tokens so far, and returns changed scores.

Constraints     RepetitionPenalty, NoRepeat, Forbidden, MinLength, ForcedPrefix
Warpers         Temperature, TopK, TopP, MinP: for sampling

A forbidden token gets -inf and the others keep their scores, so that a beam's sums stay the model's log-probabilities.
Tokens may be forbidden in place, because nothing reads their scores again; other changes are made in a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.errors import UsageError

Device = torch.device | str | None


@dataclass(frozen=True, eq=False)
class History:
    """The tokens of each row so far.

    Attributes:
        ids: prompt and answer so far; shorter ones begin with -1. Shape: [R, t].
        length: tokens of the answer so far, the same for all rows.
        sequence: the sequence each row belongs to. Shape: [R].
    """

    ids: Tensor
    length: int
    sequence: Tensor

    @staticmethod
    def of(prompts: Sequence[Sequence[int]], device: Device = None) -> History:
        """Start with a row for each sequence."""
        longest = max(map(len, prompts), default=0)
        blank = [[-1] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
        ids = torch.tensor(blank, dtype=torch.int64, device=device).view(len(prompts), longest)
        return History(ids, 0, torch.arange(len(prompts), device=device))

    def then(self, rows: Tensor, ids: Tensor) -> History:
        """Append a token to each of `rows`. Shape: [new rows] each."""
        return History(torch.cat([self.ids[rows], ids.unsqueeze(1)], 1), self.length + 1, self.sequence[rows])

    def select(self, rows: Tensor) -> History:
        """Keep some rows."""
        return History(self.ids[rows], self.length, self.sequence[rows])


LogitsProcessor = Callable[[Tensor, History], Tensor]


@dataclass(frozen=True)
class RepetitionPenalty:
    """Divides the scores of tokens that occurred by the penalty, or multiplies negative ones (Keskar et al. 2019).

    Greedy search and sampling apply it to logits, as the paper does; a beam to log-probabilities, as `transformers`.
    """

    penalty: float

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        size = scores.shape[1]
        wide = F.pad(scores, (0, 1))  # padding writes to an extra column
        said = torch.where(history.ids < 0, size, history.ids)
        old = wide.gather(1, said)
        return wide.scatter_(1, said, torch.where(old < 0, old * self.penalty, old / self.penalty))[:, :size]


@dataclass(frozen=True)
class NoRepeat:
    """Allows no n-gram of `size` tokens to occur twice (Paulus et al. 2018)."""

    size: int

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        ids = history.ids
        if ids.shape[1] < self.size:
            return scores
        windows = ids.unfold(1, self.size, 1)  # [R, windows, size]
        begun = ids[:, ids.shape[1] - self.size + 1 :].unsqueeze(1)
        again = (windows[..., :-1] == begun).all(-1) & (windows[..., -1] >= 0)
        return _forbid(scores, windows[..., -1].clamp_min(0), again)


class Forbidden:
    """Forbids words; a word of several tokens is stopped at its last one."""

    def __init__(self, words: Sequence[Sequence[int]], device: Device = None) -> None:
        self.highest = max(max(word) for word in words)
        sizes = sorted({len(word) for word in words})
        self.groups = [torch.tensor([list(w) for w in words if len(w) == size], device=device) for size in sizes]

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        _inside("a forbidden word", self.highest, scores)
        for words in self.groups:
            begun = words.shape[1] - 1
            if history.ids.shape[1] >= begun:
                said = history.ids[:, history.ids.shape[1] - begun :].unsqueeze(1)
                hit = (said == words[:, :-1]).all(-1)  # [R, words]
                scores = _forbid(scores, words[:, -1].expand_as(hit), hit)
        return scores


@dataclass(frozen=True)
class MinLength:
    """Forbids the end token before `length` tokens."""

    length: int
    end_id: int

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        if history.length >= self.length:
            return scores
        _inside("the end token", self.end_id, scores)
        return scores.index_fill_(1, torch.tensor(self.end_id, device=scores.device), -math.inf)


class ForcedPrefix:
    """Forces the first tokens of each sequence; the other processors apply only after them."""

    def __init__(
        self, prefixes: Sequence[Sequence[int]], others: Sequence[LogitsProcessor], device: Device = None
    ) -> None:
        self.others = others
        self.highest = max(max(prefix, default=-1) for prefix in prefixes)
        self.longest = max(map(len, prefixes))
        padded = [list(prefix) + [-1] * (self.longest - len(prefix)) for prefix in prefixes]
        self.ids = torch.tensor(padded, dtype=torch.int64, device=device)

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        if history.length >= self.longest:
            return self._free(scores, history)
        _inside("a forced prefix", self.highest, scores)
        wanted = self.ids[history.sequence, history.length].unsqueeze(1)
        other = torch.arange(scores.shape[1], device=scores.device) != wanted
        forced = scores.masked_fill(other, -math.inf)
        return torch.where(wanted >= 0, forced, self._free(scores.clone(), history))  # forced rows keep their scores

    def _free(self, scores: Tensor, history: History) -> Tensor:
        for processor in self.others:
            scores = processor(scores, history)
        return scores


# Warpers change the distribution that tokens are sampled from.


@dataclass(frozen=True)
class Temperature:
    """Divides the scores by the temperature: below 1 the best tokens gain, above 1 the others."""

    temperature: float

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        del history
        return scores / self.temperature


@dataclass(frozen=True)
class TopK:
    """Keeps the k best tokens, and those equal to the last of them (Fan et al. 2018)."""

    k: int

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        del history
        last = scores.topk(min(self.k, scores.shape[1])).values[:, -1:]
        return scores.masked_fill(scores < last, -math.inf)


@dataclass(frozen=True)
class TopP:
    """Keeps the smallest set of best tokens that holds the share p of the probability (Holtzman et al. 2020)."""

    p: float

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        del history
        falling, order = scores.sort(dim=-1, descending=True)
        share = falling.softmax(-1)
        enough = share.cumsum(-1) - share >= self.p  # the better tokens already hold the share
        return scores.masked_fill(enough.scatter(1, order, enough), -math.inf)


@dataclass(frozen=True)
class MinP:
    """Keeps tokens that are at least p times as likely as the best (Nguyen et al. 2024)."""

    p: float

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Shape: [R, V] -> [R, V]."""
        del history
        return scores.masked_fill(scores < scores.amax(-1, keepdim=True) + math.log(self.p), -math.inf)


def _forbid(scores: Tensor, ids: Tensor, hit: Tensor) -> Tensor:
    """Forbid `ids` where `hit`; the same token may be named several times. Shape: [R, V], [R, n], [R, n]."""
    return scores.scatter_add_(1, ids, torch.zeros_like(ids, dtype=scores.dtype).masked_fill(hit, -math.inf))


def _inside(what: str, token: int, scores: Tensor) -> None:
    if token >= scores.shape[1]:
        raise UsageError(f"{what} holds token {token}, but the vocabulary ends at {scores.shape[1] - 1}")
