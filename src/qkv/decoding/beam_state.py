"""The beam of one sequence: its rows and its finished hypotheses."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field
from typing import NamedTuple

from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.rules import BeamRules


class Node(NamedTuple):
    """A token, the node before it, the model's log-probability of it, and the sum that ranks it."""

    token: int
    before: Node | None
    log_prob: float
    total: float


class Candidate(NamedTuple):
    """A possible continuation of a row."""

    row: int
    node: Node


ROOT = Node(-1, None, 0.0, 0.0)  # before the first token
DEAD = Candidate(0, Node(0, None, 0.0, -math.inf))  # fills up a sequence that has fewer rows than its neighbours


@dataclass(eq=False)
class Beam:
    """One sequence's rows and finished hypotheses.

    Attributes:
        limit: the most tokens.
        rules: of the search.
        rows: the last node of each row.
        finished: the n best, best first.
    """

    limit: int
    rules: BeamRules
    rows: list[Node] = field(default_factory=lambda: [ROOT])
    finished: list[Hypothesis] = field(default_factory=list)

    def take(self, candidates: list[Candidate], length: int) -> list[Candidate]:
        """Finish some candidates (best first, `length` tokens each); returns those that continue, or none if over."""
        end_id, config = self.rules.stop.end_id, self.rules.config
        for rank, (_, node) in enumerate(candidates):
            if self.rules.finishes(rank, node.token, length, self.limit):
                self._finish(node, length, ended=node.token == end_id)
        if not candidates:  # no token is allowed any more: the rows are answers as they are
            for node in self.rows:
                self._finish(node, length - 1, ended=False)
        going = [candidate for candidate in candidates if candidate.node.token != end_id][: config.beam]
        best = going[0].node.total if going else -math.inf
        worst = self.finished[-1].score if len(self.finished) == config.nbest else -math.inf
        return [] if self.rules.over(best, worst, length, self.limit) else going

    def _finish(self, node: Node, length: int, *, ended: bool) -> None:
        score = self.rules.score(node.total, max(length, 1))
        if score == -math.inf:
            return
        ids, scores = [], []
        while node.before is not None:
            ids.append(node.token)
            scores.append(node.log_prob)
            node = node.before
        insort(self.finished, Hypothesis.backwards(ids, scores, score, ended=ended), key=lambda h: -h.score)
        del self.finished[self.rules.config.nbest :]
