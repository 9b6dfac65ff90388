"""Word vectors: analogies (Mikolov et al. 2013) and word similarity (WordSim-353, SimLex-999)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qkv.common.errors import UsageError
from qkv.evaluation.correlation import Pearson, Spearman
from qkv.evaluation.proportion import Proportion
from qkv.evaluation.score import Score, need_examples

CELLS = 2**24
"""How many similarities to compute at once: 64 MB."""


class Analogy(NamedTuple):
    """`a` is to `b` as `c` is to `d`."""

    section: str
    a: str
    b: str
    c: str
    d: str


def read_analogies(lines: Iterable[str]) -> Iterator[Analogy]:
    """Read the format of `questions-words.txt`: `: section` starts a section, `#` a comment; the rest is four words."""
    section = ""
    for number, line in enumerate(lines, 1):
        words = line.split()
        if line.startswith(":"):
            section = line[1:].strip()
        elif line.startswith("#"):
            continue
        elif len(words) == 4:
            yield Analogy(section, *words)
        elif words:
            raise UsageError(f"line {number} has {len(words)} words, but an analogy has 4: {line.strip()!r}")


def read_pairs(lines: Iterable[str]) -> Iterator[tuple[str, str, float]]:
    """Read lines of two words and a number; lines that start with `#` are comments."""
    for number, line in enumerate(lines, 1):
        if line.startswith("#") or not line.strip():
            continue
        try:
            first, second, score = line.split()
            yield first, second, float(score)
        except ValueError as error:
            raise UsageError(f"line {number} is not two words and a number: {line.strip()!r}") from error


class Vectors:
    """Words and their unit vectors.

    Args:
        words: the words, most frequent first.
        vectors: one row per word. Shape: [V, D].
        restrict: keep only the first `restrict` words.
        lowercase: ignore case. Of words that differ only in case, the first one is kept.
    """

    def __init__(
        self, words: Sequence[str], vectors: NDArray[Any], *, restrict: int | None = None, lowercase: bool = True
    ) -> None:
        if len(words) != len(vectors):
            raise UsageError(f"{len(words)} words but {len(vectors)} vectors")
        self._fold: Callable[[str], str] = str.lower if lowercase else str
        rows: dict[str, int] = {}
        for row, word in enumerate(islice(words, restrict)):
            rows.setdefault(self._fold(word), row)
        self._place = {word: place for place, word in enumerate(rows)}
        self.signature = f"case:{'lc' if lowercase else 'mixed'}|vocabulary:{len(rows)}"
        chosen = np.asarray(vectors)[list(rows.values())].astype(np.float32)
        self.unit_VD = chosen / np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), 1e-12)

    def __len__(self) -> int:
        return len(self._place)

    @cached_property
    def words(self) -> list[str]:
        """The words as they are looked up, in row order."""
        return list(self._place)

    def find(self, *words: str) -> list[int] | None:
        """Return the row of each word, or None if one is unknown."""
        places = [self._place.get(self._fold(word), -1) for word in words]
        return None if -1 in places else places


class Analogies:
    """The share of analogies solved by 3CosAdd.

    The answer is the word nearest to b - a + c, excluding a, b and c. Analogies with an unknown word are skipped; the
    part `coverage` is the share that was not skipped.
    """

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._batch = min(max(CELLS // max(len(vectors), 1), 1), 1024)
        self._waiting: list[tuple[str, list[int]]] = []
        self._sections: defaultdict[str, Proportion] = defaultdict(Proportion)
        self._all = Proportion()
        self._total = 0

    def add(self, section: str, a: str, b: str, c: str, d: str) -> None:
        """Add one analogy."""
        self._total += 1
        if (places := self._vectors.find(a, b, c, d)) is not None:
            self._waiting.append((section, places))
        if len(self._waiting) >= self._batch:
            self._flush()

    def result(self) -> Score:
        """Return the share, with the share of each section and the coverage as parts."""
        self._flush()
        need_examples("analogies", self._total)
        if self._all.count == 0:
            raise UsageError(f"none of {self._total} analogies has vectors for all its words")
        parts = {"coverage": self._all.count / self._total}
        parts |= {name: self._sections[name].value for name in sorted(self._sections)}
        return self._all.score("analogies", signature=f"method:3cosadd|{self._vectors.signature}", parts=parts)

    def _flush(self) -> None:
        if not self._waiting:
            return
        unit_VD = self._vectors.unit_VD
        a, b, c, d = np.array([places for _, places in self._waiting]).T
        near = (unit_VD[b] - unit_VD[a] + unit_VD[c]) @ unit_VD.T
        for query in (a, b, c):
            near[np.arange(len(near)), query] = -np.inf
        for (section, _), hit in zip(self._waiting, near.argmax(axis=1) == d, strict=True):
            self._all.add(bool(hit))
            self._sections[section].add(bool(hit))
        self._waiting.clear()


class WordSimilarity:
    """The rank correlation of cosines with human ratings. Pairs with an unknown word are skipped."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._ranks = Spearman()
        self._line = Pearson()
        self._total = 0

    def add(self, first: str, second: str, judgement: float) -> None:
        """Add one pair."""
        self._total += 1
        if (places := self._vectors.find(first, second)) is not None:
            one, other = self._vectors.unit_VD[places]
            cosine = float(one @ other)
            self._ranks.add(cosine, judgement)
            self._line.add(cosine, judgement)

    def result(self) -> Score:
        """Return Spearman's coefficient, with Pearson's and the coverage as parts."""
        need_examples("word similarity", self._total)
        if self._ranks.count == 0:
            raise UsageError(f"none of {self._total} pairs has vectors for both its words")
        score = self._ranks.result()
        parts = {"coverage": score.count / self._total, "pearson": self._line.result().value}
        signature = f"{score.signature}|{self._vectors.signature}"
        return replace(score, name="word-similarity", signature=signature, parts=parts)
