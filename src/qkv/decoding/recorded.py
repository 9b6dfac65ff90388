"""Greedy search, sampling and beam search as tensor operations of fixed shapes, recorded as a CUDA graph.

The host does not wait for the device before a batch is finished: the device decides which token comes next, what has
finished and when to stop. Now and then the host checks whether all sequences are finished and, for a stream, reads the
tokens of the last few steps. Rules (`rules.py`) and answers are those of the searches on the host. There a
finished sequence leaves the batch; here it stays, ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from qkv.common.cuda.graphs import record
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.logits_processors import History, LogitsProcessor
from qkv.decoding.rules import BeamRules, StopCondition
from qkv.decoding.samplers import sampled
from qkv.decoding.single import OnTokens, choose

LOOK = 8  # steps between two looks at what the device has found
NEVER = -math.inf


class Kept(Protocol):
    """Recordings by their settings; the least recently used are dropped."""

    def get(self, key: Any, make: Callable[[], Recording]) -> Recording:
        """Return a recording, made at first use."""


class FixedStepper(Protocol):
    """A stepper of static shapes (see `models/fixed_steppers.py`)."""

    device: torch.device

    @property
    def kept(self) -> Kept:
        """The recordings of these sizes."""

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
        token, log_prob = self.choose(stepper.step(self.ids).float())
        self.tokens.index_copy_(0, self.at, token.unsqueeze(0))
        self.log_probs.index_copy_(0, self.at, log_prob.unsqueeze(0))
        self.at.add_(1)
        self.over.logical_or_(self.stop(token, self.at, self.limits))
        self.ids.copy_(token)

    def choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next tokens and their log-probabilities. Shape: [R, V] -> [R] each."""
        best, token = logits.max(-1)
        return token, best - logits.logsumexp(-1)

    def tell(self, going: list[int], steps: range, on_tokens: OnTokens) -> list[int]:
        """Pass on the tokens of some steps, and limit the rows that are to stop. Returns the rows that go on.

        Args:
            going: the rows that had not ended before these steps.
            steps: counted from 0.
            on_tokens: see `recorded_search`.
        """
        limits, found = self.limits.tolist(), self.tokens[steps.start : steps.stop].tolist()
        stopped = False
        for step, tokens in zip(steps, found, strict=True):
            going = [row for row in going if step < limits[row] and tokens[row] != self.stop.end_id]
            for row in on_tokens([(row, tokens[row]) for row in going]) or () if going else ():
                limits[row], stopped = step + 1, True
        if stopped:
            self.limits.copy_(torch.tensor(limits))
            self.over.logical_or_(self.limits <= self.at)
        return going

    def read(self) -> list[list[Hypothesis]]:
        """Return the hypothesis of each row."""
        limits = self.limits.tolist()
        rows = zip(self.tokens.t().tolist(), self.log_probs.t().tolist(), limits, strict=True)
        return [[self._cut(tokens[:limit], scores[:limit])] for tokens, scores, limit in rows]

    def _cut(self, tokens: list[int], scores: list[float]) -> Hypothesis:
        ended = self.stop.end_id in tokens
        if ended:
            end = tokens.index(self.stop.end_id)
            tokens, scores = tokens[:end], scores[: end + 1]
        return Hypothesis(tokens, scores, sum(scores), ended)


class Sampled(Greedy):
    """The state of sampling, with the random numbers of every row and step.

    Args:
        warpers: what changes the scores before a token is sampled; none of them looks at earlier tokens.
        sizes: see `Greedy`.
    """

    def __init__(self, warpers: Sequence[LogitsProcessor], *sizes: Any) -> None:
        super().__init__(*sizes)
        self.warpers, self.none = warpers, History.of([], self.ids.device)
        self.drawn = torch.zeros(self.tokens.shape, dtype=torch.float64, device=self.ids.device)

    def load(self, drawn: Tensor) -> None:
        """Load the random numbers of a batch. Shape: [R, steps]."""
        self.drawn[: drawn.shape[1]].copy_(drawn.t())

    def choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next tokens and their log-probabilities. Shape: [R, V] -> [R] each."""
        drawn = self.drawn.index_select(0, self.at).squeeze(0)
        return choose(logits, self.warpers, self.none, lambda scores: sampled(scores, drawn))


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

    def run(self, first: Tensor, limits: Sequence[int], on_tokens: OnTokens | None = None) -> list[list[Hypothesis]]:
        """Decode a batch after its sources or prompts are loaded into the stepper."""
        most, longest = torch.tensor(limits, device=self.stepper.device), max(limits, default=0)
        if self.graph is None and self.stepper.device.type == "cuda":
            self.graph = self._record(first, most)
        self.state.reset(first, most)
        self.stepper.begin()
        going, told = list(range(len(limits))), 0
        for step in range(1, longest + 1):
            if self.graph is None:
                self.advance(self.stepper)
            else:
                self.graph.replay()
            if step % LOOK and step < longest:
                continue
            if on_tokens is not None and isinstance(self.state, Greedy):
                going, told = self.state.tell(going, range(told, step), on_tokens), step
            if bool(self.state.over.all()):
                break
        return self.state.read()

    def _record(self, first: Tensor, limits: Tensor) -> torch.cuda.CUDAGraph:
        def warm_up() -> None:
            self.stepper.begin()
            self.state.reset(first, limits)
            self.advance(self.stepper)

        return record(warm_up, lambda: self.advance(self.stepper))[0]


def recorded_search(
    stepper: FixedStepper,
    first: Tensor,
    *,
    limits: Sequence[int],
    longest: int,
    rules: BeamRules,
    warpers: Sequence[LogitsProcessor] = (),
    drawn: Tensor | None = None,
    on_tokens: OnTokens | None = None,
) -> list[list[Hypothesis]]:
    """Decode with the recording for these sizes and settings, made at first use.

    Args:
        stepper: with its sources or prompts loaded.
        first: the first token of each source; in sampling, of each row.
        limits: the most tokens of each.
        longest: at least every limit.
        rules: which search.
        warpers: of sampling.
        drawn: the random numbers of sampling. Shape: [R, steps].
        on_tokens: called with the (row, token) pairs of each step, a few steps after it; the rows that it returns, if
            any, stop there. Not in a beam.
    """
    config = rules.config

    def make() -> Recording:
        state: Greedy | Beams
        if config.beam > 1:
            state = Beams(len(first), longest, rules, stepper.device)
        elif drawn is not None:
            state = Sampled(warpers, len(first), longest, rules.stop, stepper.device)
        else:
            state = Greedy(len(first), longest, rules.stop, stepper.device)
        return Recording(stepper, state, compile=config.compile)

    search = (config.beam, config.nbest, config.length_penalty, config.compile, rules.stop, longest)
    recording = stepper.kept.get((*search, drawn is not None, tuple(warpers)), make)
    if drawn is not None and isinstance(recording.state, Sampled):
        recording.state.load(drawn)
    return recording.run(first, limits, on_tokens)
