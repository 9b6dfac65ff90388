"""What decoding returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence.

    Attributes:
        ids: its tokens, without the end token.
        scores: the model's log-probability of each token, and of the end token where it ended.
        score: what hypotheses are ranked by: their sum, in a beam divided by a power of the length.
        ended: whether it ended with the end token; otherwise it reached its limit, or no token was allowed.
    """

    ids: list[int]
    scores: list[float]
    score: float
    ended: bool

    @staticmethod
    def empty() -> Hypothesis:
        """Return a hypothesis without tokens."""
        return Hypothesis([], [], 0.0, ended=False)

    @staticmethod
    def backwards(ids: list[int], scores: list[float], score: float, *, ended: bool) -> Hypothesis:
        """Make a hypothesis of tokens and log-probabilities from the last to the first, the end token included."""
        return Hypothesis(ids[int(ended) :][::-1], scores[::-1], score, ended)
