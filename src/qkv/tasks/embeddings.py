"""Sentence vectors from pairs of texts: matches, or scores of likeness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from qkv.common.batch import SentencePairs
from qkv.common.config import from_dict
from qkv.data.config import DataConfig
from qkv.data.labelled import rated
from qkv.data.parallel import parallel
from qkv.data.store import Store
from qkv.objectives.contrastive import CosineScore, Match
from qkv.tasks.base import Array, Collate, Context, Row, Task, chunks, tokens_of
from qkv.tasks.classify import columns

Pair = tuple[str, str, float | None]


class EmbeddingsTask(Task):
    """With a label column, cosines learn the scores; without one, each text learns to find its match in the batch."""

    heads = ("pool",)

    def examples(self, paths: Sequence[str], data: DataConfig, **reading: Any) -> Iterator[Pair]:
        """Read pairs, with their scores where there are any."""
        if data.label:
            for example in rated(list(paths), **columns(data), **reading):
                yield example.text, example.second or "", example.score
            return
        named = [data.text, data.second] if data.text and data.second else None
        for pair in parallel(list(paths), columns=named, **reading):
            yield pair.source, pair.target, None

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield both sides."""
        for first, second, _ in self.examples(paths, data, bad=data.bad):
            yield first
            yield second

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Tokenise both sides."""
        limit = min(context.data.max_length, context.config.max_length)
        for chunk in chunks(self.examples(paths, context.data, **context.reading)):
            sides = [context.text.encode([row[side] for row in chunk], max_length=limit).ids for side in (0, 1)]  # type: ignore[misc]
            for (_, _, score), first, second in zip(chunk, *sides, strict=True):
                yield {"first": first, "second": second} | ({} if score is None else {"score": score})

    def lengths(self, store: Store) -> Array:
        """Both sides cost."""
        return store.lengths("first") + store.lengths("second")

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather both sides; scores are brought to 0 ... 1 by the recipe's `scale`."""
        scale = float(context.settings.get("scale_scores", 1.0))

        def make(rows: Array, rng: np.random.Generator) -> SentencePairs:
            del rng
            first, second = (tokens_of(*store.gather(side, rows)) for side in ("first", "second"))
            if "score" not in store.columns:
                return SentencePairs(first, second)
            return SentencePairs(first, second, torch.from_numpy(store.gather("score", rows)[0] / scale).float())

        return make

    def objective(self, settings: Mapping[str, Any]) -> Match | CosineScore:
        """Cosine regression where the recipe gives a scale of scores, else in-batch matching."""
        rest = {key: value for key, value in settings.items() if key != "scale_scores"}
        return from_dict(CosineScore, rest) if "scale_scores" in settings else from_dict(Match, rest)
