"""One token at a time, each sequence for itself: what greedy search and sampling share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from qkv.common.protocols import Stepper
from qkv.decoding.best import log_sum
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.logits_processors import History, LogitsProcessor

Choose = Callable[[Tensor, list[int], int], Tensor]  # scores [R, V], the sequence of each row, the step -> ids [R]


@dataclass(eq=False)
class _Answer:
    """What one sequence has said so far."""

    limit: int
    ids: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    ended: bool = False
    stuck: bool = False

    @property
    def goes_on(self) -> bool:
        return not self.ended and not self.stuck and len(self.ids) < self.limit

    def add(self, token: int, log_prob: float, end_id: int) -> None:
        if log_prob == -math.inf:  # nothing is allowed any more: what was said so far must do
            self.stuck = True
            return
        self.scores.append(log_prob)
        self.ended = token == end_id
        if not self.ended:
            self.ids.append(token)


def walk(
    stepper: Stepper,
    ids: Tensor,
    *,
    end_id: int,
    limits: Sequence[int],
    processors: Sequence[LogitsProcessor],
    history: History,
    choose: Choose,
    on_tokens: Callable[[list[tuple[int, int]]], None] | None = None,
) -> list[Hypothesis]:
    """Decode each sequence to its end token or limit; whoever is finished leaves the batch."""
    answers = [_Answer(limit) for limit in limits]
    running, step = list(range(len(limits))), 0
    while stay := [row for row, b in enumerate(running) if answers[b].goes_on]:
        if len(stay) < len(running):
            rows = torch.tensor(stay, device=stepper.device)
            stepper.reorder(rows)
            ids, history, running = ids[rows], history.select(rows), [running[row] for row in stay]
        logits = scores = stepper.step(ids).float()
        total = log_sum(logits)
        for processor in processors:
            scores = processor(scores, history)
        ids = choose(scores, running, step)
        log_probs = _chosen(logits, scores, ids) - total.squeeze(1)
        if processors:
            history = history.then(torch.arange(len(ids), device=ids.device), ids)
        for b, token, log_prob in zip(running, ids.tolist(), log_probs.tolist(), strict=True):
            answers[b].add(token, log_prob, end_id)
        step += 1
        if on_tokens is not None:
            on_tokens([(b, answers[b].ids[-1]) for b in running if len(answers[b].ids) == step])
    return [Hypothesis(answer.ids, answer.scores, sum(answer.scores), answer.ended) for answer in answers]


def _chosen(logits: Tensor, scores: Tensor, ids: Tensor) -> Tensor:
    """The model's logits of chosen tokens, -inf where the processors allow none. Shape: [R, V], [R] -> [R]."""
    chosen = ids.unsqueeze(1)
    forbidden = scores.gather(1, chosen) == -math.inf
    return logits.gather(1, chosen).masked_fill(forbidden, -math.inf).squeeze(1)
