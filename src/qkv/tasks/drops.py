"""BPE-dropout in training (Provilkov et al. 2020): texts are split anew, with some merges left out, at each reading."""

from __future__ import annotations

import numpy as np

from qkv.common.errors import UsageError
from qkv.data.store import Store
from qkv.tasks.base import Array, Context


def check_drops(context: Context) -> bool:
    """Tell whether merges are dropped, and stop a tokenizer or a share that cannot."""
    if context.data.dropout:
        try:
            context.text.encode(["a"], dropout=context.data.dropout, seed=0)
        except UsageError as error:
            raise UsageError(f"data.dropout: {error}") from None
    return bool(context.data.dropout)


def text_bytes(text: str) -> Array:
    """Return a text as a store can hold it."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


def drops(store: Store, context: Context) -> bool:
    """Whether the texts of a store are split anew: those of validation are always split alike."""
    return bool(context.data.dropout) and store.folder.name == "train"


def dropped(store: Store, side: str, rows: Array, context: Context, rng: np.random.Generator) -> tuple[Array, Array]:
    """Split texts anew with some merges left out.

    What is random comes from the batch's own generator, so the same batch is split alike whoever makes it and when. A
    text that would be too long stays as it was.
    """
    plain = np.split(*_edges(store.gather(side, rows)))
    texts = [piece.tobytes().decode() for piece in np.split(*_edges(store.gather(f"{side}_text", rows)))]
    found = context.text.encode(texts, dropout=context.data.dropout, seed=int(rng.integers(1 << 62))).ids
    ids = [np.array(new) if len(new) <= context.data.max_length else old for new, old in zip(found, plain, strict=True)]
    return np.concatenate(ids), np.array([len(piece) for piece in ids])


def _edges(found: tuple[Array, Array]) -> tuple[Array, Array]:
    """Turn lengths into the places where to cut."""
    flat, lengths = found
    return flat, np.cumsum(lengths)[:-1]
