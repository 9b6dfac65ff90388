"""Greedy and beam search as tensor operations of fixed shapes, and their steps recorded as a CUDA graph.

The host does not wait for the device before a batch is finished: the device decides which token comes next, what has
finished and when to stop, and the host checks only now and then whether all sequences are finished. Rules (`rules.py`)
and answers are those of the searches on the host. There a finished sequence leaves the batch; here it stays, ignored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from qkv.common.cuda.graphs import record
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.rules import BeamRules, StopCondition

LOOK = 8  # steps between two checks whether all sequences are finished
NEVER = -math.inf


class FixedStepper(Protocol):
    """A stepper of static shapes (see `models/fixed_steppers.py`)."""

    device: torch.device
    kept: dict[object, Recording]

    def step(self, ids: Tensor) -> Tensor:
        """Shape: [R] -> [R, V]."""

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held."""

    def begin(self) -> None:
        """Go back to the first step."""


class Greedy:
    """The state of greedy search."""

    def __init__(self, rows: int, longest: int, stop: StopCondition, device: torch.device) -> None:
        self.stop = stop
        self.ids = torch.zeros(rows, dtype=torch.int64, device=device)
        self.limits = torch.zeros(rows, dtype=torch.int64, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.over = torch.zeros(rows, dtype=torch.bool, device=device)
        self.tokens = torch.zeros(longest, rows, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(longest, rows, device=device)

    def reset(self, first: Tensor, limits: Tensor) -> None:
        """Go back to before the first token."""
        self.ids.copy_(first)
        self.limits.copy_(limits)
        self.at.zero_()
        self.over.copy_(limits < 1)

    def advance(self, stepper: FixedStepper) -> None:
        """Generate one more token."""
        logits = stepper.step(self.ids).float()
        best, token = logits.max(-1)
        self.tokens.index_copy_(0, self.at, token.unsqueeze(0))
        self.log_probs.index_copy_(0, self.at, (best - logits.logsumexp(-1)).unsqueeze(0))
        self.at.add_(1)
        self.over.logical_or_(self.stop(token, self.at, self.limits))
        self.ids.copy_(token)

    def read(self) -> list[list[Hypothesis]]:
        """Return the hypotheses."""
        limits = self.limits.tolist()
        rows = zip(self.tokens.t().tolist(), self.log_probs.t().tolist(), limits, strict=True)
        return [[self._cut(tokens[:limit], scores[:limit])] for tokens, scores, limit in rows]

    def _cut(self, tokens: list[int], scores: list[float]) -> Hypothesis:
        ended = self.stop.end_id in tokens
        if ended:
            end = tokens.index(self.stop.end_id)
            tokens, scores = tokens[:end], scores[: end + 1]
        return Hypothesis(tokens, scores, sum(scores), ended)


class Beams:
    """The state of beam search.

    The token of each row and the row it continues are recorded step by step (`tokens`, `parents`, `log_probs`). A
    finished hypothesis is its score and the place in this record where it ends.
    """

    def __init__(self, sources: int, longest: int, rules: BeamRules, device: torch.device) -> None:
        self.rules, config = rules, rules.config
        self.width, shape = config.beam, (sources, config.beam)

        def numbers(*sizes: int) -> Tensor:
            return torch.zeros(*sizes, dtype=torch.int64, device=device)

        self.ids, self.limits, self.at = numbers(sources * config.beam), numbers(sources), numbers(1)
        self.over = torch.zeros(sources, dtype=torch.bool, device=device)
        self.totals = torch.zeros(shape, device=device)
        self.tokens, self.parents = numbers(longest, *shape), numbers(longest, *shape)
        self.log_probs = torch.zeros(longest, *shape, device=device)
        self.scores = torch.zeros(sources, config.nbest, device=device)
        # of each finished hypothesis: the steps before its last token, the row they are read from, that token
        self.places = numbers(sources, config.nbest, 3)
        self.last_probs = torch.zeros(sources, config.nbest, device=device)
        self.first_row = (torch.arange(sources, device=device) * config.beam).unsqueeze(1)

    def reset(self, first: Tensor, limits: Tensor) -> None:
        """Go back to before the first token: one row of each source is alive."""
        self.ids.copy_(first.repeat_interleave(self.width))
        self.limits.copy_(limits)
        self.at.zero_()
        self.over.copy_(limits < 1)
        self.totals.fill_(NEVER)
        self.totals[:, 0] = 0.0
        self.scores.fill_(NEVER)

    def advance(self, stepper: FixedStepper) -> None:
        """Find the best candidates of each source; finish some, continue with others."""
        logits = stepper.step(self.ids).float()
        count = min(self.rules.num_candidates, logits.shape[1])
        values, tokens = logits.topk(count)
        values = values - logits.logsumexp(-1, keepdim=True)
        totals, place = (self.totals.view(-1, 1) + values).view(len(self.totals), -1).topk(count)
        parents, tokens = place // count, tokens.view(len(totals), -1).gather(1, place)
        log_probs = values.view(len(totals), -1).gather(1, place)
        self._finish(parents, tokens, log_probs, totals)
        best, chosen = totals.masked_fill(tokens == self.rules.stop.end_id, NEVER).topk(self.width)
        self._extend(best, parents.gather(1, chosen), tokens.gather(1, chosen), log_probs.gather(1, chosen), stepper)

    def _finish(self, parents: Tensor, tokens: Tensor, log_probs: Tensor, totals: Tensor) -> None:
        """Keep the n best of those that have finished and those that finish now."""
        length, rank = self.at + 1, torch.arange(totals.shape[1], device=totals.device)
        now = self.rules.finishes(rank, tokens, length, self.limits.unsqueeze(1)) & ~self.over.unsqueeze(1)
        scores = self.rules.score(totals, length).masked_fill(~now, NEVER)
        places = torch.stack([self.at.expand_as(parents), parents, tokens], -1)
        best, chosen = torch.cat([self.scores, scores], 1).topk(self.scores.shape[1])
        self.scores.copy_(best)
        self.last_probs.copy_(torch.cat([self.last_probs, log_probs], 1).gather(1, chosen))
        index = chosen.unsqueeze(-1).expand(-1, -1, 3)
        self.places.copy_(torch.cat([self.places, places], 1).gather(1, index))

    def _extend(self, best: Tensor, parents: Tensor, tokens: Tensor, log_probs: Tensor, stepper: FixedStepper) -> None:
        for column, new in ((self.tokens, tokens), (self.parents, parents), (self.log_probs, log_probs)):
            column.index_copy_(0, self.at, new.unsqueeze(0))
        self.at.add_(1)
        limits = self.limits.clamp_min(1)  # a limit of 0 is over before the first step
        self.over.logical_or_(self.rules.over(best[:, 0], self.scores[:, -1], self.at, limits))
        self.totals.copy_(best)
        self.ids.copy_(tokens.flatten())
        stepper.reorder((self.first_row + parents).flatten())

    def read(self) -> list[list[Hypothesis]]:
        """Follow the record back from each finished hypothesis."""
        tokens, parents, log_probs = self.tokens.tolist(), self.parents.tolist(), self.log_probs.tolist()
        columns = zip(self.scores.tolist(), self.places.tolist(), self.last_probs.tolist(), strict=True)
        found: list[list[Hypothesis]] = []
        for source, (scores, places, last) in enumerate(columns):
            several = []
            for score, (steps, row, token), log_prob in zip(scores, places, last, strict=True):
                ids, probs = [token], [log_prob]
                for step in reversed(range(steps)):
                    ids.append(tokens[step][source][row])
                    probs.append(log_probs[step][source][row])
                    row = parents[step][source][row]
                if score > NEVER:
                    ended = token == self.rules.stop.end_id
                    several.append(Hypothesis.backwards(ids, probs, score, ended=ended))
            found.append(several or [Hypothesis.empty()])
        return found


class Recording:
    """A search of static shapes with its step, compiled if the config says so, and recorded on a GPU."""

    def __init__(self, stepper: FixedStepper, state: Greedy | Beams, *, compile: bool = False) -> None:
        self.stepper, self.state = stepper, state
        self.advance = torch.compile(state.advance, dynamic=False) if compile else state.advance
        self.graph: torch.cuda.CUDAGraph | None = None

    def run(self, first: Tensor, limits: Sequence[int]) -> list[list[Hypothesis]]:
        """Decode a batch after its sources or prompts are loaded into the stepper."""
        most = torch.tensor(limits, device=self.stepper.device)
        if self.graph is None and self.stepper.device.type == "cuda":
            self.graph = self._record(first, most)
        self.state.reset(first, most)
        self.stepper.begin()
        for step in range(1, max(limits, default=0) + 1):
            if self.graph is None:
                self.advance(self.stepper)
            else:
                self.graph.replay()
            if step % LOOK == 0 and bool(self.state.over.all()):
                break
        return self.state.read()

    def _record(self, first: Tensor, limits: Tensor) -> torch.cuda.CUDAGraph:
        def warm_up() -> None:
            self.stepper.begin()
            self.state.reset(first, limits)
            self.advance(self.stepper)

        return record(warm_up, lambda: self.advance(self.stepper))[0]


def recorded_search(
    stepper: FixedStepper, first: Tensor, *, limits: Sequence[int], longest: int, rules: BeamRules
) -> list[list[Hypothesis]]:
    """Decode with the recording for these sizes, made at first use; `longest` is at least every limit."""
    config = rules.config
    key = (config.beam, config.nbest, config.length_penalty, config.compile, rules.stop, longest)
    if key not in stepper.kept:
        state: Greedy | Beams = Greedy(len(first), longest, rules.stop, stepper.device)
        if config.beam > 1:
            state = Beams(len(first), longest, rules, stepper.device)
        stepper.kept[key] = Recording(stepper, state, compile=config.compile)
    return stepper.kept[key].run(first, limits)
