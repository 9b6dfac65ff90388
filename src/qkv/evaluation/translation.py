"""Translation: BLEU (Papineni et al. 2002) and chrF (Popović 2015), computed by sacrebleu (Post 2018).

Both are functions of sums over sentences, so they stream. sacrebleu caches the tokens of the last 65,536 sentences,
which bounds memory use.
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

_CHRF = CHRF()


class Translation:
    """A sacrebleu metric, computed one sentence at a time.

    sacrebleu's public functions need the whole corpus at once. This class uses the two methods that sacrebleu's own
    significance tests use.

    Args:
        metric: the sacrebleu metric.
        columns: the number of statistics per sentence.
        replicas: the number of bootstrap replicas.
        seed: the seed of the bootstrap.
    """

    def __init__(self, metric: Sacre, columns: int, *, replicas: int = 1000, seed: int = 0) -> None:
        self._metric = metric
        self._sums = Bootstrap(columns, replicas=replicas, seed=seed)
        self._numbers_of_references: set[int] = set()

    def add(self, translation: str, references: Sequence[str]) -> None:
        """Add one sentence and its references."""
        if isinstance(references, str) or not references:
            raise UsageError(f"references must be a list of one or more sentences, not {references!r}")
        self._numbers_of_references.add(len(references))
        [row] = self._metric._extract_corpus_statistics([translation], [[reference] for reference in references])
        self._sums.add(row)

    def result(self) -> Score:
        """Return the corpus score, from 0 to 100, with sacrebleu's signature followed by the kind of interval."""
        need_examples("translation quality", self._sums.count)
        [first, *others] = self._numbers_of_references
        # sacrebleu uses -1 for "varies".
        self._metric.num_refs = -1 if others else first
        whole = self._metric._compute_score_from_stats(self._sums.totals().tolist())
        signature = self._metric.get_signature().format()
        return self._sums.score(whole.name, self._values, signature=signature, parts=_parts(whole))

    def _values(self, sums_RK: Array) -> Array:
        rows = sums_RK.tolist()
        return np.array([self._metric._compute_score_from_stats(row).score if any(row) else math.nan for row in rows])


def sentence_chrf(translation: str, reference: str) -> float:
    """Return the chrF of one sentence, from 0 to 100."""
    return float(_CHRF.sentence_score(translation, [reference]).score)


def _parts(whole: object) -> dict[str, float]:
    """Return the components of BLEU: precisions, brevity penalty and length ratio."""
    precisions = {f"precision-{n}": float(p) for n, p in enumerate(getattr(whole, "precisions", []), 1)}
    names = {"brevity-penalty": "bp", "length-ratio": "ratio"}
    return precisions | {name: float(getattr(whole, key)) for name, key in names.items() if hasattr(whole, key)}


class Bleu(Translation):
    """Corpus BLEU with n-grams up to 4.

    Args:
        lowercase: ignore case ("lc" in the signature).
        tokenize: the sacrebleu tokenizer.
        replicas: the number of bootstrap replicas.
        seed: the seed of the bootstrap.
    """

    def __init__(self, *, lowercase: bool = False, tokenize: str = "13a", replicas: int = 1000, seed: int = 0) -> None:
        if tokenize not in BLEU.TOKENIZERS:
            raise unknown("sacrebleu tokenizer", tokenize, BLEU.TOKENIZERS)
        super().__init__(BLEU(lowercase=lowercase, tokenize=tokenize), 10, replicas=replicas, seed=seed)


class Chrf(Translation):
    """Corpus chrF, or chrF++ with `word_order=2`.

    Args:
        word_order: the maximum order of word n-grams, in addition to character n-grams up to 6.
        lowercase: ignore case.
        replicas: the number of bootstrap replicas.
        seed: the seed of the bootstrap.
    """

    def __init__(self, *, word_order: int = 0, lowercase: bool = False, replicas: int = 1000, seed: int = 0) -> None:
        metric = CHRF(word_order=word_order, lowercase=lowercase)
        super().__init__(metric, 3 * (CHRF.CHAR_ORDER + word_order), replicas=replicas, seed=seed)
