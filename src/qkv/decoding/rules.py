"""The rules of the searches: when a hypothesis ends, how a beam ranks them, and when a beam is over.

Searches run step by step on the host (`single.py`, `beam.py`) or whole on the device (`recorded.py`). Both use these
rules, which take numbers and tensors alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from qkv.decoding.config import DecodingConfig

Number = Any  # a Python number, or a tensor of numbers that broadcasts with the others


@dataclass(frozen=True)
class StopCondition:
    """A hypothesis ends at the end token, or at its limit.

    Attributes:
        end_id: the end token, -1 for none.
    """

    end_id: int

    def __call__(self, token: Number, length: Number, limit: Number) -> Number:
        """Return whether a hypothesis ends with this token, its `length`-th."""
        return (token == self.end_id) | (length >= limit)


@dataclass(frozen=True)
class BeamRules:
    """What a beam ranks, what finishes, and when it is over.

    Attributes:
        config: `beam`, `nbest` and `length_penalty`.
        stop: when a hypothesis ends.
    """

    config: DecodingConfig
    stop: StopCondition

    @property
    def num_candidates(self) -> int:
        """The best continuations to look at. A row can end in one way only, so `beam` of them always continue."""
        return 2 * self.config.beam

    def score(self, total: Number, length: Number) -> Number:
        """Return the score that ranks hypotheses: sum / length^α, the end token included.

        α = 0 keeps the sum, α = 1 is the mean. (Wu et al. 2016 divide by (5 + length)^α / 6^α.)
        """
        return total / length**self.config.length_penalty

    def finishes(self, rank: Number, token: Number, length: Number, limit: Number) -> Number:
        """Return whether a candidate finishes. Only the best `beam` may; the others fill the rows of those that did."""
        return (rank < self.config.beam) & self.stop(token, length, limit)

    def over(self, best: Number, worst: Number, length: Number, limit: Number) -> Number:
        """Return whether a beam is over: at its limit, or when no row can overtake the n best that have finished.

        A sum of log-probabilities is negative and only falls. So sum / length^α never gets above sum / limit^α where α
        is positive, and never above sum / (length so far)^α where it is not: the best cannot be lost.

        Args:
            best: the highest sum of the rows that continue, -inf if there are none.
            worst: the score of the n-th best finished hypothesis, -inf if fewer have finished.
            length: tokens so far.
            limit: the most tokens.
        """
        reachable = self.score(best, limit if self.config.length_penalty > 0 else length)
        return (length >= limit) | (worst >= reachable) | (best == -math.inf)
