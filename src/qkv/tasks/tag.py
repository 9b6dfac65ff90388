"""A tag for each word; sub-words are aligned inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import torch

from qkv.common.batch import Labelled
from qkv.common.config import from_dict
from qkv.data.config import DataConfig
from qkv.data.store import Store
from qkv.data.tagged import tagged
from qkv.objectives.parts import IGNORED
from qkv.objectives.tag import Tag
from qkv.tasks.base import Array, Collate, Context, Row, Task, chunks, known_only, tokens_of
from qkv.tasks.drops import check_drops, drops
from qkv.tokenizers.dropout import Merges


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
        """Gather tokens and tags; with data.dropout the words of training are split anew at each reading."""
        anew = resplitting(store, context)

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            (ids, lengths), (tags, _) = store.gather("ids", rows), store.gather("tags", rows)
            if anew is not None:
                ids, lengths, tags = anew(ids, lengths, tags, rng)
            return Labelled(tokens_of(ids, lengths), torch.from_numpy(tags.astype(np.int64)))

        return make

    def objective(self, settings: Mapping[str, Any]) -> Tag:
        """Cross-entropy of the tags."""
        return from_dict(Tag, settings)


Anew = Callable[[Array, Array, Array, np.random.Generator], tuple[Array, Array, Array]]


def resplitting(store: Store, context: Context) -> Anew | None:
    """Return what splits the words of a batch anew, with some merges left out; None where nothing is dropped."""
    check_drops(context)
    if not drops(store, context):
        return None
    merges, dropout = context.text.merges, context.data.dropout

    def anew(ids: Array, lengths: Array, tags: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        random, longest = Random(int(rng.integers(1 << 62))), context.data.max_length
        cuts = np.cumsum(lengths)[:-1]
        found = []
        for old, named in zip(np.split(ids, cuts), np.split(tags, cuts), strict=True):
            new = _resplit(old.tolist(), named.tolist(), merges, dropout, random)
            found.append(new if len(new[0]) <= longest else (old.tolist(), named.tolist()))
        sizes = np.array([len(new) for new, _ in found])
        return np.concatenate([new for new, _ in found]), sizes, np.concatenate([named for _, named in found])

    return anew


def _resplit(
    ids: list[int], tags: list[int], merges: Merges, dropout: float, random: Random
) -> tuple[list[int], list[int]]:
    """Split each word of a sentence; the first piece keeps the tag. The special tokens at both ends stay."""
    starts = [0, *(i for i, tag in enumerate(tags) if tag != IGNORED), len(ids) - 1, len(ids)]
    found: list[int] = []
    named: list[int] = []
    for start, end in pairwise(sorted(set(starts))):
        word = merges.split(ids[start:end], dropout, random)
        found += word
        named += [tags[start]] + [IGNORED] * (len(word) - 1)
    return found, named


def _steps(words: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pair each token's word with that of the token before."""
    return zip([-1, *words[:-1]], words, strict=True)
