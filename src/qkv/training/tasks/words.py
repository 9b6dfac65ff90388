"""Word vectors from plain text: each word against the words around it and words that are not (Mikolov et al. 2013)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from qkv.common.batch import Words
from qkv.common.config import from_dict
from qkv.data.corruption import NoiseTable, cbow_contexts, keep_rates, skip_grams
from qkv.data.documents import documents
from qkv.data.store import Store
from qkv.objectives.words import Cbow, SkipGram
from qkv.training.config import DataConfig
from qkv.training.tasks.base import Array, Collate, Context, Row, Task, chunks

PIECE = 1000  # words: a longer document is cut, so that batches keep their budget


@dataclass(frozen=True, kw_only=True)
class WordSettings:
    """The recipe's table `objective`.

    Attributes:
        kind: skip-gram (a word says each word around it) or cbow (the words around a word say it).
        window: the furthest word that counts as around.
        negatives: words that are not there, for each that is.
        threshold: words more frequent than this are left out now and then; 0 keeps all.
    """

    kind: str = "skip-gram"
    window: int = 5
    negatives: int = 5
    threshold: float = 1e-4


class WordsTask(Task):
    """A tokenizer of whole words, two tables, and negative sampling."""

    specials = "translate"

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield the documents."""
        return (document.text for document in documents(list(paths), unit=data.unit, bad=data.bad))

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Number the words; those the vocabulary lacks are left out, as in the authors' code."""
        special = set(context.text.specials.values())
        for chunk in chunks(documents(list(paths), unit=context.data.unit, **context.reading), 200):
            for ids in context.text.encode([document.text for document in chunk]).ids:
                words = [word for word in ids if word not in special]
                for start in range(0, len(words), PIECE):
                    yield {"ids": words[start : start + PIECE]}

    def collate(self, store: Store, context: Context) -> Collate:
        """Lay windows over each document, and draw noise by how often words occur."""
        settings = from_dict(WordSettings, context.settings)
        counts = np.bincount(store.values("ids"), minlength=context.config.vocab_size)
        noise, keep = (
            NoiseTable(counts),
            keep_rates(counts, threshold=settings.threshold) if settings.threshold else None,
        )
        lay = cbow_contexts if settings.kind == "cbow" else skip_grams

        def make(rows: Array, rng: np.random.Generator) -> Words:
            flat, lengths = store.gather("ids", rows)
            pieces = np.split(flat, np.cumsum(lengths)[:-1])
            found = [lay(piece, window=settings.window, rng=rng, keep=keep) for piece in pieces]
            inputs, outputs = (np.concatenate([pair[side] for pair in found]) for side in (0, 1))
            drawn = noise.sample(rng, (len(outputs), settings.negatives))
            return Words(*(torch.from_numpy(x.astype(np.int64)) for x in (inputs, outputs, drawn)))

        return make

    def objective(self, settings: Mapping[str, Any]) -> SkipGram | Cbow:
        """Tell true words from noise."""
        return Cbow() if from_dict(WordSettings, settings).kind == "cbow" else SkipGram()
