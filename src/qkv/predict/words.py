"""Words of a word vector model: the similarity of two, the nearest to one, and king - man + woman."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from qkv.common.errors import UsageError
from qkv.evaluation.words import Vectors
from qkv.models.word2vec import Word2Vec
from qkv.predict.runner import Runner

OPERATORS = ("+", "-")
SPELLINGS = 50_000  # words that a wrong spelling is compared with, the most frequent ones


class Near(NamedTuple):
    """A word and its cosine similarity."""

    word: str
    cosine: float

    def to_dict(self) -> dict[str, Any]:
        """Return the word for JSON."""
        return self._asdict()


class Question(NamedTuple):
    """A sum of words.

    Attributes:
        plus: words to add.
        minus: words to subtract.
    """

    plus: list[str]
    minus: list[str]


class WordVectors:
    """The words of a model and their vectors, for example `WordVectors(qkv.load("vectors.txt"))`."""

    def __init__(self, model: Runner) -> None:
        self.vectors = Vectors(*named_vectors(model), lowercase=False)

    def cosine(self, a: str, b: str) -> float:
        """Return the cosine of two words' vectors."""
        x, y = self.vectors.unit_VD[[self.place(a), self.place(b)]]
        return float(x @ y)

    def nearest(self, question: str | Question, *, top: int = 10) -> list[Near]:
        """Return the words nearest to a word or to a sum ("king - man + woman"), without the words of the query.

        The sum is one of unit vectors (3CosAdd, Mikolov et al. 2013).
        """
        if top < 1:
            raise UsageError(f"top must be at least 1, got {top}")
        asked = parse(question.split()) if isinstance(question, str) else question
        plus, minus = ([self.place(word) for word in words] for words in asked)
        unit_VD = self.vectors.unit_VD
        sought_D = unit_VD[plus].sum(0) - unit_VD[minus].sum(0)
        cosines = unit_VD @ (sought_D / max(float(np.linalg.norm(sought_D)), 1e-12))
        cosines[[*plus, *minus]] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(top, len(cosines) - len({*plus, *minus}))]
        return [Near(self.vectors.words[row], float(cosines[row])) for row in best]

    def place(self, word: str) -> int:
        """Return the row of a word, as written or in lower case."""
        found = self.vectors.find(word) or self.vectors.find(word.lower())
        if found is None:
            raise self._unknown(word)
        return found[0]

    def _unknown(self, word: str) -> UsageError:
        size = len(word)
        alike = [other for other in self.vectors.words[:SPELLINGS] if abs(len(other) - size) <= 2]
        near = get_close_matches(word.lower(), alike, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return UsageError(f"{word!r} is not among the {len(self.vectors):,} words of this model{hint}")


def has_words(model: Runner) -> bool:
    """Whether a model holds vectors of whole words."""
    return isinstance(model.module, Word2Vec) and model.tokenizer is not None and model.tokenizer.kind == "WordLevel"


def named_vectors(model: Runner) -> tuple[list[str], np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
    """Return the words, most frequent first, and their vectors, without special tokens. Shape: [words, D]."""
    if not isinstance(model.module, Word2Vec) or model.tokenizer is None or not has_words(model):
        raise UsageError(f"this {model.family} has no vectors of whole words; use a word2vec or glove model")
    special = set(model.tokenizer.specials.values())
    found = {row: model.tokenizer.token_of(row) for row in range(model.config.vocab_size) if row not in special}
    named = {row: word for row, word in found.items() if word is not None}
    table_VD = model.module.inputs.weight.detach().float().cpu().numpy()
    return list(named.values()), table_VD[list(named)]


def parse(words: Sequence[str]) -> Question:
    """Parse `king - man + woman`, given as words. A sign is a word of its own, so that `x-ray` is one word."""
    plus: list[str] = []
    minus: list[str] = []
    sign, expected = "+", True  # whether a word comes next
    for word in words:
        if not expected and word in OPERATORS:
            sign, expected = word, True
        elif expected and word not in OPERATORS:
            (plus if sign == "+" else minus).append(word)
            expected = False
        else:
            raise UsageError(f"{' '.join(words)!r} is not a sum of words: write it like king - man + woman")
    if expected:
        raise UsageError(f"{' '.join(words)!r} ends with a sign: write it like king - man + woman")
    return Question(plus, minus)
