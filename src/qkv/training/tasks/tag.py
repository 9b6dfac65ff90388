"""A tag for each word; sub-words are aligned inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from qkv.common.batch import Labelled
from qkv.common.config import from_dict
from qkv.data.store import Store
from qkv.data.tagged import tagged
from qkv.objectives.parts import IGNORED
from qkv.objectives.tag import Tag
from qkv.training.config import DataConfig
from qkv.training.tasks.base import Array, Collate, Context, Row, Task, chunks, gathered, known_only


class TagTask(Task):
    """The first piece of a word carries its tag; the others are not asked for."""

    heads = ("tag",)

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield the sentences."""
        return (" ".join(example.words) for example in tagged(list(paths), bad=data.bad))

    def labels(self, paths: Sequence[str], data: DataConfig) -> tuple[str, ...]:
        """Find every tag of the training sentences; the most usual one, outside, comes first."""
        found = {tag for example in tagged(list(paths), bad=data.bad) for tag in example.tags}
        return tuple(sorted(found, key=lambda tag: (tag != "O", tag)))

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Tokenise words and number their tags; one that training never saw makes a bad row."""
        number = {label: i for i, label in enumerate(context.labels)}
        limit = min(context.data.max_length, context.config.max_length)
        found = tagged(list(paths), **context.reading)
        for chunk in chunks(known_only(found, "tag", lambda example: example.tags, context)):
            encoded = context.text.encode_words([example.words for example in chunk], max_length=limit)
            for example, ids, words in zip(chunk, encoded.ids, encoded.words, strict=True):
                tags = [number[example.tags[w]] if w >= 0 and w != before else IGNORED for before, w in _steps(words)]
                yield {"ids": ids, "tags": tags}

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather tokens and tags."""
        del context

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            del rng
            return Labelled(gathered(store, rows), torch.from_numpy(store.gather("tags", rows)[0].astype(np.int64)))

        return make

    def objective(self, settings: Mapping[str, Any]) -> Tag:
        """Cross-entropy of the tags."""
        return from_dict(Tag, settings)


def _steps(words: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pair each token's word with that of the token before."""
    return zip([-1, *words[:-1]], words, strict=True)
