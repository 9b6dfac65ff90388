"""Word vectors from plain text.

Either word2vec with negative sampling (Mikolov et al. 2013), or GloVe, which is fitted to the co-occurrence counts of
all pairs of words (Pennington et al. 2014).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from qkv.common.batch import Counted, Words
from qkv.common.errors import UsageError, unknown
from qkv.data.cooccurrence import cooccurrences
from qkv.data.corruption import NoiseTable, cbow_contexts, keep_rates, skip_grams
from qkv.data.examples import Document
from qkv.data.files import expand
from qkv.data.store import Store
from qkv.evaluation.score import Score
from qkv.evaluation.word_files import score_file
from qkv.models.word2vec import Glove, Word2VecConfig, build_glove
from qkv.objectives.words import Cbow, SkipGram
from qkv.objectives.words import Glove as GloveLoss
from qkv.tasks.base import Array, Collate, Context, Row, has_head
from qkv.tasks.exam import Exam, chunks
from qkv.tasks.language import CHUNK, DocumentTask

PIECE = 1000  # words; longer documents are split, so that batches keep their token budget
CELLS = 256  # pairs of words per row of GloVe's data
KINDS = ("skip-gram", "cbow", "glove")


@dataclass(frozen=True, kw_only=True)
class WordSettings:
    """Settings of word vectors.

    Attributes:
        kind: skip-gram (predict the context from a word), cbow (predict a word from its context) or glove (fit
            co-occurrence counts).
        window: the maximum distance of a context word.
        negatives: negative samples per positive pair; not used by glove.
        threshold: subsample words more frequent than this; 0 keeps all words, as glove does.
        x_max: for glove, pairs with at least this count have weight 1.
        alpha: for glove, rarer pairs have weight (count / x_max) to this power.
    """

    kind: str = "skip-gram"
    window: int = 5
    negatives: int = 5
    threshold: float = 1e-4
    x_max: float = 100.0
    alpha: float = 0.75

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("objective.kind", self.kind, KINDS)
        if self.window < 1 or self.negatives < 1:
            raise UsageError(f"window and negatives must be at least 1, got {self.window} and {self.negatives}")
        if self.threshold < 0 or self.x_max <= 0:
            raise UsageError(
                f"threshold must be at least 0 and x_max above 0, got {self.threshold:g} and {self.x_max:g}"
            )


class WordsTask(DocumentTask):
    """Two embedding tables over whole words, trained with negative sampling or co-occurrence counts."""

    Settings: ClassVar[type[Any]] = WordSettings
    specials: ClassVar[str] = "translate"
    mixable: ClassVar[bool] = False

    def build(self, config: Any) -> nn.Module:
        """Build two embedding tables, with biases for GloVe."""
        if not isinstance(config, Word2VecConfig):
            raise UsageError("word vectors need a model of the family word2vec, for example the preset word2vec-small")
        return build_glove(config) if self.settings.kind == "glove" else super().build(config)

    def saved(self, model: nn.Module, config: Any, context: Context) -> dict[str, tuple[Any, Any]]:
        """Save both tables; for GloVe, their sum."""
        return super().saved(model.summed() if isinstance(model, Glove) else model, config, context)

    def rows(self, examples: Iterable[Document], context: Context) -> Iterator[Row]:
        """Yield pieces of text as word ids; for GloVe, pairs of words in random order."""
        settings, pieces = self.settings, _pieces(examples, context)
        if settings.kind != "glove":
            yield from ({"ids": piece} for piece in pieces)
            return
        cells = cooccurrences(pieces, window=settings.window, vocab_size=context.config.vocab_size)
        order = np.random.default_rng(0).permutation(len(cells.counts))
        for start in range(0, len(order), CELLS):
            part = order[start : start + CELLS]
            yield {"ids": cells.first[part], "others": cells.second[part], "counts": cells.counts[part]}

    def collate(self, store: Store, context: Context) -> Collate:
        """Extract the contexts of each piece and draw negative samples by frequency; for GloVe, gather the pairs."""
        settings = self.settings
        if settings.kind == "glove":
            return lambda rows, _: _counted(store, rows)
        counts = np.bincount(store.values("ids"), minlength=context.config.vocab_size)
        keep = keep_rates(counts, threshold=settings.threshold) if settings.threshold else None
        noise, lay = NoiseTable(counts), cbow_contexts if settings.kind == "cbow" else skip_grams

        def make(rows: Array, rng: np.random.Generator) -> Words:
            flat, lengths = store.gather("ids", rows)
            pieces = np.split(flat, np.cumsum(lengths)[:-1])
            found = [lay(piece, window=settings.window, rng=rng, keep=keep) for piece in pieces]
            inputs, outputs = (np.concatenate([pair[side] for pair in found]) for side in (0, 1))
            drawn = noise.sample(rng, (len(outputs), settings.negatives))
            return Words(*(torch.from_numpy(x.astype(np.int64)) for x in (inputs, outputs, drawn)))

        return make

    def objective(self) -> SkipGram | Cbow | GloveLoss:
        """Return the loss: negative sampling, or a fit of co-occurrence counts."""
        if self.settings.kind == "glove":
            return GloveLoss(x_max=self.settings.x_max, alpha=self.settings.alpha)
        return Cbow() if self.settings.kind == "cbow" else SkipGram()

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model has word vectors."""
        return has_head(model, "context")

    def score(self, exam: Exam) -> list[Score]:
        """Return one score per file of analogies or rated pairs."""
        vectors = exam.model.word_vectors
        return [score_file(path, vectors, exam.progress) for path in expand(exam.paths)]


def _pieces(examples: Iterable[Document], context: Context) -> Iterator[list[int]]:
    """Convert words to ids; out-of-vocabulary words are dropped, as in the authors' code."""
    special = set(context.text.specials.values())
    for chunk in chunks(examples, CHUNK):
        for ids in context.text.encode([document.text for document in chunk]).ids:
            words = [word for word in ids if word not in special]
            yield from (words[start : start + PIECE] for start in range(0, len(words), PIECE))


def _counted(store: Store, rows: Array) -> Counted:
    """Make a batch of GloVe pairs: each pair is used in both directions, a word paired with itself only once."""
    first, second, counts = (store.gather(name, rows)[0] for name in ("ids", "others", "counts"))
    two = first != second
    inputs, outputs = np.concatenate([first, second[two]]), np.concatenate([second, first[two]])
    read, asked = (torch.from_numpy(x.astype(np.int64)) for x in (inputs, outputs))
    return Counted.of(read, asked, torch.from_numpy(np.concatenate([counts, counts[two]])))
