"""Translation: aligned texts to sources, targets and what the decoder shall say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from qkv.common.batch import Pairs, Translated
from qkv.common.config import from_dict
from qkv.common.errors import UsageError
from qkv.data.config import DataConfig
from qkv.data.parallel import parallel
from qkv.data.phrasebook import split
from qkv.data.store import Store
from qkv.objectives.translate import Translate
from qkv.tasks.base import Array, Collate, Context, Row, Task, chunks, shifted, tokens_of
from qkv.tasks.drops import check_drops, dropped, drops, text_bytes

BUILT_IN = "phrasebook:"
PARTS = ("train", "valid", "test")
HELD_OUT = 1000  # sentences of the phrasebook for each of valid and test
SEED = 1
SIDES = ("source", "target")


def pairs(paths: Sequence[str], data: DataConfig, **reading: Any) -> Iterator[tuple[str, str]]:
    """Read aligned texts from files, or from the built-in phrasebook ("phrasebook:train:20000", "phrasebook:test")."""
    if len(paths) == 1 and paths[0].startswith(BUILT_IN):
        part, _, count = paths[0].removeprefix(BUILT_IN).partition(":")
        if part not in PARTS or not (count or "1").isdigit():
            parts = "phrasebook:train:COUNT, phrasebook:valid or phrasebook:test, all or COUNT of them"
            raise UsageError(f"{paths[0]!r} is not a part of the phrasebook (allowed: {parts})")
        yield from islice(split(int(count or 1), SEED, HELD_OUT)[PARTS.index(part)], int(count) if count else None)
        return
    columns = [data.text, data.second] if data.text and data.second else None
    for example in parallel(list(paths), columns=columns, **reading):
        yield example.source, example.target


class TranslateTask(Task):
    """Sequence to sequence; one vocabulary serves both sides."""

    specials = "translate"
    heads = ("lm",)

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield both sides."""
        for pair in pairs(paths, data, bad=data.bad):
            yield from pair

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Tokenise both sides; pairs that are too long are left out and counted. Dropout needs the texts as well."""
        left_out, keeps = 0, check_drops(context)
        for chunk in chunks(pairs(paths, context.data, **context.reading)):
            both = zip(*(context.text.encode([pair[side] for pair in chunk]).ids for side in (0, 1)), strict=True)
            for texts, ids in zip(chunk, both, strict=True):
                if max(map(len, ids)) > context.data.max_length:
                    left_out += 1
                    continue
                kept = {f"{side}_text": text_bytes(text) for side, text in zip(SIDES, texts, strict=True)}
                yield dict(zip(SIDES, ids, strict=True)) | (kept if keeps else {})
        if left_out:
            context.say(f"{left_out} pairs are longer than {context.data.max_length} tokens and were left out")

    def lengths(self, store: Store) -> Array:
        """Both sides cost; with dropout, what they cost without it."""
        return store.lengths("source") + store.lengths("target")

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather both sides; the decoder reads its target one step late."""
        start_id = context.config.start_id
        anew = drops(store, context)

        def make(rows: Array, rng: np.random.Generator) -> Translated:
            source, (target, lengths) = (
                dropped(store, side, rows, context, rng) if anew else store.gather(side, rows) for side in SIDES
            )
            read = tokens_of(shifted(target, lengths, start_id), lengths)
            return Translated(Pairs(tokens_of(*source), read), torch.from_numpy(target.astype(np.int64)))

        return make

    def objective(self, settings: Mapping[str, Any]) -> Translate:
        """Cross-entropy with label smoothing."""
        return from_dict(Translate, settings)
