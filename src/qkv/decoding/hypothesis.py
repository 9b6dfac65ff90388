"""What decoding returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One answer.

    Attributes:
        ids: its tokens, without the end token.
        scores: the model's log-probability of each token, and of the end token where it ended.
        score: what hypotheses are ranked by: their sum, in a beam divided by a power of the length.
        ended: the end token was said; otherwise the longest length was reached or nothing was allowed.
    """

    ids: list[int]
    scores: list[float]
    score: float
    ended: bool
