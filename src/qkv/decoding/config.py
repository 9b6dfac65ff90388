"""The settings of decoding: one small config for every search."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qkv.common.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """Settings of a search. It is greedy if `beam` is 1 and `sample` is false.

    Attributes:
        beam: hypotheses kept side by side.
        nbest: hypotheses to return for each sequence, best first; with `sample`, the number of samples.
        length_penalty: α of a beam's score, sum / length^α, the end token included; 0 for the plain sum.
        max_length: the most tokens of any sequence, in addition to its own limit, or None.
        min_length: the fewest tokens before the end token.
        sample: sample each token instead of taking the best.
        temperature: what logits are divided by before sampling.
        top_k: sample from the k best tokens; 0 for all.
        top_p: sample from the smallest set of best tokens that holds this share of the probability.
        min_p: sample from tokens that are at least this share as likely as the best.
        seed: seed of the first sequence; each following sequence takes the next number.
        repetition_penalty: how much the scores of tokens that already occurred are lowered; 1 for not at all.
        no_repeat_ngram: no n-gram of this size occurs twice; 0 for no limit.
        forbidden: words, each as its token ids, that are never generated.
        compile: on CUDA, compile the step before recording it: slow for the first batch of a size, then faster.
    """

    beam: int = 1
    nbest: int = 1
    length_penalty: float = 1.0
    max_length: int | None = None
    min_length: int = 0
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    forbidden: tuple[tuple[int, ...], ...] = ()
    compile: bool = False

    def __post_init__(self) -> None:
        """Check every value; the message names what is allowed."""
        self._at_least("beam", 1)
        self._at_least("nbest", 1)
        for name in ("min_length", "top_k", "no_repeat_ngram", "seed"):
            self._at_least(name, 0)
        if self.max_length is not None:
            self._at_least("max_length", 0)
            if self.min_length > self.max_length:
                raise UsageError(f"min_length {self.min_length} is more than max_length {self.max_length}")
        for name in ("temperature", "repetition_penalty"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be greater than 0, got {getattr(self, name)}")
        if not math.isfinite(self.length_penalty):
            raise UsageError(f"length_penalty must be a finite number, got {self.length_penalty}")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p must be greater than 0 and at most 1, got {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise UsageError(f"min_p must be from 0 to 1, got {self.min_p}")
        if any(len(word) == 0 or min(word) < 0 for word in self.forbidden):
            raise UsageError("a forbidden word must have at least one token id, and none below 0")
        self._check_together()

    def _at_least(self, name: str, least: int) -> None:
        if getattr(self, name) < least:
            raise UsageError(f"{name} must be at least {least}, got {getattr(self, name)}")

    def _check_together(self) -> None:
        """Reject settings that would have no effect."""
        drawn = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
        given = [name for name, default in drawn.items() if getattr(self, name) != default]
        if given and not self.sample:
            raise UsageError(f"{given[0]} changes nothing without sample: set sample to true or leave it out")
        if self.sample and self.beam > 1:
            raise UsageError(f"a beam does not sample: use beam 1 with sample, got beam {self.beam}")
        if not self.sample and self.nbest > self.beam:
            raise UsageError(f"nbest {self.nbest} is more than the beam of {self.beam} can give")
