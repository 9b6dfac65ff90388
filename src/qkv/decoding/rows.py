"""The beam of one sequence: what goes on, what has finished, and when it is over."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field
from typing import NamedTuple

from qkv.decoding.config import DecodingConfig
from qkv.decoding.hypothesis import Hypothesis


class Said(NamedTuple):
    """A token, what was said before it, the model's log-probability of it, and the sum that ranks it."""

    token: int
    before: Said | None
    log_prob: float
    total: float


class Candidate(NamedTuple):
    """A way for one row to go on."""

    row: int
    said: Said


NOTHING = Said(-1, None, 0.0, 0.0)  # before the first token
DEAD = Candidate(0, Said(0, None, 0.0, -math.inf))  # fills up a source that has fewer rows than its neighbours


@dataclass(eq=False)
class Beam:
    """One sequence's rows and finished hypotheses.

    Attributes:
        limit: the most tokens.
        config: of the search.
        rows: what each row has said.
        finished: the n best, best first.
    """

    limit: int
    config: DecodingConfig
    rows: list[Said] = field(default_factory=lambda: [NOTHING])
    finished: list[Hypothesis] = field(default_factory=list)

    def take(self, candidates: list[Candidate], length: int, end_id: int) -> list[Candidate]:
        """Finish some candidates (best first, `length` tokens each) and return those that go on: none where it is over.

        Only the best `beam` may finish; the others are there to fill the rows of those that did.
        """
        last = length == self.limit
        for _, said in candidates[: self.config.beam]:
            if last or said.token == end_id:
                self._finish(said, length, ended=said.token == end_id)
        if not candidates:  # nothing is allowed any more: what was said so far must do
            for said in self.rows:
                self._finish(said, length - 1, ended=False)
        going = [candidate for candidate in candidates if candidate.said.token != end_id][: self.config.beam]
        return [] if last or self._over(going, length) else going

    def _finish(self, said: Said, length: int, *, ended: bool) -> None:
        score = normalised(said.total, max(length, 1), self.config.length_penalty)
        ids, scores, word = [], [], said
        while word.before is not None:
            ids.append(word.token)
            scores.append(word.log_prob)
            word = word.before
        if score > -math.inf:
            insort(
                self.finished, Hypothesis(ids[int(ended) :][::-1], scores[::-1], score, ended), key=lambda h: -h.score
            )
            del self.finished[self.config.nbest :]

    def _over(self, going: list[Candidate], length: int) -> bool:
        """No row can overtake the last of the n best that have finished.

        A sum s of log-probabilities is negative and only falls. So s / length^α never gets above s / limit^α where α is
        positive, and never above s / (length so far)^α where it is not: the best can not be lost.
        """
        if not going:
            return True
        if len(self.finished) < self.config.nbest:
            return False
        alpha = self.config.length_penalty
        reachable = normalised(going[0].said.total, self.limit if alpha > 0 else length, alpha)
        return self.finished[-1].score >= reachable


def normalised(total: float, length: int, alpha: float) -> float:
    """Return sum / length^α (Wu et al. 2016 have (5 + length)^α / 6^α): 0 keeps the sum, 1 is the mean."""
    return total / length**alpha
