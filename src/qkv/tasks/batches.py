"""Build token batches from the rows of a store, for every task that reads text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from qkv.common.batch import Tokens
from qkv.common.ragged import Ragged
from qkv.data.bad_rows import BadRow, BadRows, sift
from qkv.data.store import Store
from qkv.tasks.base import Array, Context

CHUNK = 1000  # texts tokenised at a time, in parallel


def limit_of(context: Context, max_length: int) -> int:
    """Return the maximum sequence length that both the recipe and the model allow."""
    return int(min(max_length, getattr(context.config, "max_length", max_length)))


def known_only(
    examples: Iterable[Any], what: str, names: Callable[[Any], Iterable[str]], context: Context, bad: str
) -> Iterator[Any]:
    """Yield the examples whose labels occur in training; any other label makes a bad row."""

    def check(_: str, example: Any) -> Any:
        if other := set(names(example)) - set(context.labels):
            raise BadRow(f"the {what} {min(other)!r} does not occur in training ({', '.join(context.labels)})")
        return example

    skipped: BadRows = context.skipped
    return sift(((example.where, example) for example in examples), check, bad, skipped)


def tokens_of(flat: Array, lengths: Array, segments: Array | None = None, positions: Array | None = None) -> Tokens:
    """Make a batch from gathered ids."""
    more = (None if row is None else torch.from_numpy(row.astype(np.int64)) for row in (segments, positions))
    return Tokens(torch.from_numpy(flat.astype(np.int64)), Ragged.of(lengths.tolist()), *more)


def gathered(store: Store, rows: Array) -> Tokens:
    """Make a batch from the ids of some rows, with segments if the store has them."""
    flat, lengths = store.gather("ids", rows)
    segments = store.gather("segments", rows)[0] if "segments" in store.columns else None
    return tokens_of(flat, lengths, segments)


def column(store: Store, name: str, rows: Array) -> torch.Tensor:
    """Gather integers, one per row or token."""
    return torch.from_numpy(store.gather(name, rows)[0].astype(np.int64))


def shifted(flat: Array, lengths: Array, start_id: int) -> Array:
    """Shift sequences right for a decoder: prepend a start token and drop the last token."""
    found = np.empty_like(flat)
    found[1:] = flat[:-1]
    found[np.cumsum(lengths) - lengths] = start_id
    return found
