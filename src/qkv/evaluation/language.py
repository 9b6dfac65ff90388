"""Language models: perplexity per token, per word and per byte.

Tokens differ between tokenizers, so compare models with different tokenizers per word or per byte only.
"""

from __future__ import annotations

import math

import numpy as np

from qkv.common.errors import UsageError, unknown
from qkv.evaluation.bootstrap import Array, Bootstrap
from qkv.evaluation.counts import ratio
from qkv.evaluation.score import Score, need_examples

UNITS = ("token", "word", "byte")


class Perplexity:
    """exp of the mean negative log-likelihood per unit. The bootstrap resamples examples (documents, lines)."""

    def __init__(self, *, replicas: int = 1000, seed: int = 0) -> None:
        self._sums = Bootstrap(1 + len(UNITS), replicas=replicas, seed=seed)

    def add(self, nll: float, tokens: int, words: int = 0, bytes: int = 0) -> None:
        """Add one text.

        Args:
            nll: the summed negative log-likelihood of its tokens, in nats.
            tokens: the number of predicted tokens.
            words: the number of words in the text; 0 if not counted.
            bytes: the number of UTF-8 bytes in the text; 0 if not counted.
        """
        if min(tokens, words, bytes) < 0:
            raise UsageError(f"the numbers of tokens, words and bytes must not be negative: {tokens}, {words}, {bytes}")
        self._sums.add((nll, tokens, words, bytes))

    def result(self, unit: str = "token") -> Score:
        """Return perplexity per token or another of `UNITS`, with all units and bits per byte as parts."""
        if unit not in UNITS:
            raise unknown("unit", unit, UNITS)
        need_examples("perplexity", self._sums.count)
        totals = self._sums.totals()
        place = 1 + UNITS.index(unit)
        if totals[place] == 0:
            raise UsageError(f"perplexity per {unit} needs the number of {unit}s of each text, but all were 0")
        return self._sums.score(
            "perplexity" if unit == "token" else f"{unit}-perplexity",
            lambda sums_RK: _perplexity(sums_RK, place),
            signature=f"unit:{unit}",
            parts=_parts(totals),
        )


def _perplexity(sums_RK: Array, place: int) -> Array:
    with np.errstate(over="ignore"):
        return np.exp(ratio(sums_RK[:, 0], sums_RK[:, place]))


def _parts(totals_K: Array) -> dict[str, float]:
    """Return perplexity and count of each unit that was counted, and bits per byte."""
    parts: dict[str, float] = {}
    for place, unit in enumerate(UNITS, 1):
        if totals_K[place]:
            parts[f"per-{unit}"] = float(_perplexity(totals_K[None], place)[0])
            parts[f"{unit}s"] = float(totals_K[place])
    if totals_K[3]:
        parts["bits-per-byte"] = float(totals_K[0] / totals_K[3] / math.log(2))
    return parts
