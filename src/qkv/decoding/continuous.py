"""Continuous batching (Yu et al. 2022, Orca): sequences join and leave the batch at any step.

Each sequence gets the tokens that it would get alone: a row does not depend on its neighbours, and it has random
numbers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import torch
from torch import Tensor

from qkv.common.protocols import PromptStepper
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import processors_of
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.logits_processors import History
from qkv.decoding.rules import StopCondition
from qkv.decoding.samplers import GreedySampler, sampled
from qkv.decoding.single import Growing, choose

Prompts = Sequence[Sequence[int]]
FEW = 4096  # tokens read before a new start is worthwhile


class Row:
    """One sequence.

    Attributes:
        prompt: the tokens before it.
        answer: its tokens so far, and whether it has ended.
    """

    def __init__(self, prompt: Sequence[int], limit: int, seed: int) -> None:
        self.prompt, self.answer = list(prompt), Growing(limit)
        self.random = Random(seed)

    @property
    def ids(self) -> list[int]:
        """All tokens so far."""
        return [*self.prompt, *self.answer.ids]

    def hypothesis(self) -> Hypothesis:
        """Return the result."""
        answer = self.answer
        return Hypothesis(answer.ids, answer.scores, sum(answer.scores), answer.ended)


class ContinuousSearch:
    """Greedy search, or sampling, over rows that come and go.

    Args:
        start: reads prompts; returns a stepper.
        join: lets a stepper read more prompts.
        config: of every row; it has a beam of 1 and no minimum length. Seeds are those of the rows.
        end_id: the token that ends a sequence, -1 for none.
    """

    def __init__(
        self,
        start: Callable[[Prompts], PromptStepper],
        join: Callable[[PromptStepper, Prompts], None],
        config: DecodingConfig,
        end_id: int,
    ) -> None:
        self._start, self._join, self._sample = start, join, config.sample
        self._config, self._end_id, self._stop = config, end_id, StopCondition(end_id)
        self.rows: list[Row] = []
        self._stepper: PromptStepper | None = None
        self._processors = processors_of(replace(config, seed=0), end_id=end_id)
        self._history: History | None = None
        self._next = torch.zeros(0, dtype=torch.int64)
        self._read = 0  # tokens that the stepper has read: an engine's cache keeps those of rows that have left

    @torch.inference_mode()
    def add(self, rows: Sequence[Row]) -> None:
        """Let rows join; one that may have no token does not."""
        rows = [row for row in rows if not row.answer.over]
        if not rows:
            return
        prompts = [row.ids for row in rows]
        if self._stepper is None:
            self._stepper = self._start(prompts)
            self._next = self._stepper.first
        else:
            self._join(self._stepper, prompts)
            self._next = torch.cat([self._next, self._stepper.first])
        self.rows += rows
        self._read += sum(map(len, prompts))
        if self._processors:
            self._history = History.of([row.ids for row in self.rows], self._stepper.device)

    @torch.inference_mode()
    def step(self) -> list[Row]:
        """Give each row its next token; rows that have ended leave. Returns the rows that got a token or an end."""
        self._leave()
        if self._stepper is None:
            return []
        stepper, rows = self._stepper, list(self.rows)
        best = None if self._processors or self._sample else stepper.best(self._next, 1)
        if best is not None:
            log_probs, ids = (found.squeeze(1) for found in best)
        else:
            history = self._history or History.of([[]] * len(rows), stepper.device)
            ids, log_probs = choose(stepper.step(self._next).float(), self._processors, history, self._choose)
        for row, token, log_prob in zip(rows, ids.tolist(), log_probs.tolist(), strict=True):
            row.answer.add(token, log_prob, self._stop)
        if self._history is not None:
            self._history = self._history.then(torch.arange(len(rows), device=ids.device), ids)
        self._next, self._read = ids, self._read + len(rows)
        return rows

    def _choose(self, scores: Tensor) -> Tensor:
        if not self._sample:
            return GreedySampler()(scores, [], 0)
        drawn = [row.random.random() for row in self.rows]
        return sampled(scores, torch.tensor(drawn, dtype=torch.float64, device=scores.device))

    def _leave(self) -> None:
        """Drop rows that are over; if few of the tokens in the cache are still needed, begin again with those."""
        stay = [number for number, row in enumerate(self.rows) if not row.answer.over]
        if self._stepper is None or len(stay) == len(self.rows) == 0:
            return
        needed = sum(len(self.rows[number].ids) for number in stay)
        if not stay or self._read > max(FEW, 4 * needed):
            rows, self.rows, self._stepper, self._history, self._read = self.rows, [], None, None, 0
            self.add([rows[number] for number in stay])
            return
        if len(stay) < len(self.rows):
            kept = torch.tensor(stay, device=self._stepper.device)
            self._stepper.reorder(kept)
            self._next = self._next[kept]
            self._history = None if self._history is None else self._history.select(kept)
            self.rows = [self.rows[number] for number in stay]
