"""Seeded BPE-dropout (Provilkov et al. 2020, algorithm 1).

The `tokenizers` library has a faster implementation, but it cannot be seeded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby, pairwise
from random import Random
from typing import Any

from tokenizers import Tokenizer

from qkv.common.errors import UsageError


def check_dropout(inner: Tokenizer, dropout: float) -> None:
    """Raise an error if the tokenizer has no merges or `dropout` is not a probability."""
    if type(inner.model).__name__ != "BPE":
        raise UsageError(f"dropout is for BPE tokenizers; this one is {type(inner.model).__name__}")
    if not 0 <= dropout <= 1:
        raise UsageError(f"dropout is {dropout}; it must be from 0 to 1")


class Merges:
    """The merges of a BPE tokenizer, applied to words at random."""

    def __init__(self, inner: Tokenizer) -> None:
        state = json.loads(inner.model.__getstate__())
        if state["continuing_subword_prefix"] or state["end_of_word_suffix"]:
            raise UsageError("seeded dropout needs BPE without prefixes and suffixes; leave the seed out")
        pairs = (tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in state["merges"])
        self._ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self._ids: dict[str, int] = state["vocab"]
        self._tokens = {number: token for token, number in self._ids.items()}
        self._whole = set(inner.get_added_tokens_decoder()) | {self._ids.get(state["unk_token"] or "", -1)}

    def drop(self, encoding: Any, dropout: float, random: Random) -> tuple[list[int], list[int], list[int]]:
        """Split the words of an encoding again. Returns ids, segments and sequence numbers (-1 for special tokens)."""
        ids: list[int] = []
        segments: list[int] = []
        sides: list[int] = []
        rows = zip(encoding.ids, encoding.type_ids, encoding.sequence_ids, encoding.word_ids, strict=True)
        for (segment, side, _), group in groupby(rows, key=lambda row: row[1:]):
            split = self.split([row[0] for row in group], dropout, random)
            ids += split
            segments += [segment] * len(split)
            sides += [-1 if side is None else side] * len(split)
        return ids, segments, sides

    def split(self, ids: Sequence[int], dropout: float, random: Random) -> Sequence[int]:
        """Split one word; a word with unknown characters stays unchanged."""
        if self._whole.intersection(ids):
            return ids
        parts = list("".join(self._tokens[number] for number in ids))
        if not all(part in self._ids for part in parts):  # bytes written as <0x..>
            return ids
        while True:
            ranks = (self._ranks.get(pair) for pair in pairwise(parts))
            open_ = [(rank, i) for i, rank in enumerate(ranks) if rank is not None and random.random() >= dropout]
            if not open_:
                return [self._ids[part] for part in parts]
            _, i = min(open_)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
