"""Translations: BLEU (Papineni et al. 2002) and chrF (Popović 2015), counted by sacrebleu (Post 2018).

Both are functions of sums over sentences, so they stream. sacrebleu keeps the tokens of the last 65,536 sentences: a
bound on memory, which a long run reaches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.base import Metric as Sacre
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from qkv.common.errors import UsageError, unknown
from qkv.evaluation.bootstrap import Array, Bootstrap
from qkv.evaluation.score import Score, need_examples


class Translation:
    """A metric of sacrebleu, one sentence at a time.

    sacrebleu's public calls want the whole corpus. The two methods used here are those its own significance tests use.

    Args:
        metric: of sacrebleu.
        columns: how many numbers it counts per sentence.
        replicas: of the bootstrap.
        seed: of the bootstrap.
    """

    def __init__(self, metric: Sacre, columns: int, *, replicas: int = 1000, seed: int = 0) -> None:
        self._metric = metric
        self._sums = Bootstrap(columns, replicas=replicas, seed=seed)
        self._numbers_of_references: set[int] = set()

    def add(self, translation: str, references: Sequence[str]) -> None:
        """Compare one sentence with its references."""
        if isinstance(references, str) or not references:
            raise UsageError(f"references come as a list of one or more sentences, not as {references!r}")
        self._numbers_of_references.add(len(references))
        [row] = self._metric._extract_corpus_statistics([translation], [[reference] for reference in references])
        self._sums.add(row)

    def result(self) -> Score:
        """Return the corpus score, from 0 to 100; the signature is sacrebleu's with the interval behind it."""
        need_examples("translation quality", self._sums.count)
        [first, *others] = self._numbers_of_references
        # -1 is sacrebleu's word for "varies".
        self._metric.num_refs = -1 if others else first
        whole = self._metric._compute_score_from_stats(self._sums.totals().tolist())
        signature = self._metric.get_signature().format()
        return self._sums.score(whole.name, self._values, signature=signature, parts=_parts(whole))

    def _values(self, sums_RK: Array) -> Array:
        rows = sums_RK.tolist()
        return np.array([self._metric._compute_score_from_stats(row).score if any(row) else math.nan for row in rows])


def _parts(whole: object) -> dict[str, float]:
    """Return what BLEU is made of: precisions, brevity penalty and the ratio of lengths."""
    precisions = {f"precision-{n}": float(p) for n, p in enumerate(getattr(whole, "precisions", []), 1)}
    names = {"brevity-penalty": "bp", "length-ratio": "ratio"}
    return precisions | {name: float(getattr(whole, key)) for name, key in names.items() if hasattr(whole, key)}


class Bleu(Translation):
    """Corpus BLEU with four orders.

    Args:
        lowercase: compare without case ("lc" in the signature).
        tokenize: sacrebleu's tokenizer.
        replicas: of the bootstrap.
        seed: of the bootstrap.
    """

    def __init__(self, *, lowercase: bool = False, tokenize: str = "13a", replicas: int = 1000, seed: int = 0) -> None:
        if tokenize not in BLEU.TOKENIZERS:
            raise unknown("tokenizer of sacrebleu", tokenize, BLEU.TOKENIZERS)
        super().__init__(BLEU(lowercase=lowercase, tokenize=tokenize), 10, replicas=replicas, seed=seed)


class Chrf(Translation):
    """Corpus chrF; chrF++ with `word_order=2`.

    Args:
        word_order: orders of word n-grams that join the six of characters.
        lowercase: compare without case.
        replicas: of the bootstrap.
        seed: of the bootstrap.
    """

    def __init__(self, *, word_order: int = 0, lowercase: bool = False, replicas: int = 1000, seed: int = 0) -> None:
        metric = CHRF(word_order=word_order, lowercase=lowercase)
        super().__init__(metric, 3 * (CHRF.CHAR_ORDER + word_order), replicas=replicas, seed=seed)
