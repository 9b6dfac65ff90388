"""Greedy search and sampling: one hypothesis of each row, token by token."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from qkv.common.protocols import Stepper
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.logits_processors import History, LogitsProcessor
from qkv.decoding.rules import StopCondition
from qkv.decoding.samplers import GreedySampler, Sampler
from qkv.decoding.topk import logsumexp

# Called with the (sequence, token) pairs of a step; may return the sequences that are to stop.
OnTokens = Callable[[list[tuple[int, int]]], Collection[int] | None]


@dataclass(eq=False)
class Growing:
    """One sequence so far."""

    limit: int
    ids: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    ended: bool = False
    over: bool = False

    def __post_init__(self) -> None:
        self.over = self.limit < 1

    def add(self, token: int, log_prob: float, stop: StopCondition) -> None:
        """Add a token; the end token and the last one that is allowed end the sequence."""
        if log_prob == -math.inf:  # no token is allowed any more: the answer ends here
            self.over = True
            return
        self.scores.append(log_prob)
        self.over = stop(token, len(self.scores), self.limit)
        self.ended = token == stop.end_id
        if not self.ended:
            self.ids.append(token)


def single_search(
    stepper: Stepper,
    ids: Tensor,
    *,
    limits: Sequence[int],
    processors: Sequence[LogitsProcessor],
    history: History,
    sampler: Sampler,
    stop: StopCondition,
    on_tokens: OnTokens | None = None,
) -> list[Hypothesis]:
    """Decode each sequence to its end token or limit; a finished sequence leaves the batch."""
    answers = [Growing(limit) for limit in limits]
    running, step = list(range(len(limits))), 0
    while stay := [row for row, b in enumerate(running) if not answers[b].over]:
        if len(stay) < len(running):
            rows = torch.tensor(stay, device=stepper.device)
            stepper.reorder(rows)
            ids, history, running = ids[rows], history.select(rows), [running[row] for row in stay]
        if not processors and type(sampler) is GreedySampler and (best := stepper.best(ids, 1)) is not None:
            log_probs, ids = (found.squeeze(1) for found in best)
        else:
            sample = partial(sampler, running=running, step=step)
            ids, log_probs = choose(stepper.step(ids).float(), processors, history, sample)
        if processors:
            history = history.then(torch.arange(len(ids), device=ids.device), ids)
        for b, token, log_prob in zip(running, ids.tolist(), log_probs.tolist(), strict=True):
            answers[b].add(token, log_prob, stop)
        step += 1
        if on_tokens is not None:
            for b in on_tokens([(b, answers[b].ids[-1]) for b in running if len(answers[b].ids) == step]) or ():
                answers[b].over = True
    return [Hypothesis(answer.ids, answer.scores, sum(answer.scores), answer.ended) for answer in answers]


def choose(
    logits: Tensor, processors: Sequence[LogitsProcessor], history: History, sample: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Choose a token for each row; returns the tokens and the model's log-probabilities. Shape: [R, V] -> [R] each."""
    total, scores = logsumexp(logits), logits
    for processor in processors:
        scores = processor(scores, history)
    ids = sample(scores)
    return ids, _chosen(logits, scores, ids) - total.squeeze(1)


def _chosen(logits: Tensor, scores: Tensor, ids: Tensor) -> Tensor:
    """The model's logits of the chosen tokens, -inf if the processors allow none. Shape: [R, V], [R] -> [R]."""
    chosen = ids.unsqueeze(1)
    forbidden = scores.gather(1, chosen) == -math.inf
    return logits.gather(1, chosen).masked_fill(forbidden, -math.inf).squeeze(1)
