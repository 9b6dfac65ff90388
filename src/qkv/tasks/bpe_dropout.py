"""BPE-dropout in training (Provilkov et al. 2020): at each reading a text is split with some merges left out."""

from __future__ import annotations

import numpy as np

from qkv.common.errors import UsageError
from qkv.data.config import DataConfig
from qkv.data.store import Store
from qkv.tasks.base import Array, Context
from qkv.tasks.batches import limit_of


def check_bpe_dropout(dropout: float, context: Context) -> bool:
    """Tell whether merges are dropped; stop a tokenizer or a share that cannot."""
    if dropout:
        try:
            context.text.encode(["a"], dropout=dropout, seed=0)
        except UsageError as error:
            raise UsageError(f"data.dropout: {error}") from None
    return bool(dropout)


def text_bytes(text: str) -> Array:
    """Return a text as a store can hold it."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


def drops(store: Store, dropout: float) -> bool:
    """Whether the texts of a store are split again at each reading: those of validation never are."""
    return bool(dropout) and "train" in store.folder.parts[-2:]


def resplit(
    store: Store, side: str, rows: Array, context: Context, data: DataConfig, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Split texts again with some merges left out.

    The randomness comes from the batch's own generator, so the same batch is always split the same way. A text that
    would become too long for the recipe or the model stays as it was.
    """
    plain = np.split(*_edges(store.gather(side, rows)))
    texts = [piece.tobytes().decode() for piece in np.split(*_edges(store.gather(f"{side}_text", rows)))]
    found = context.text.encode(texts, dropout=data.dropout, seed=int(rng.integers(1 << 62))).ids
    limit = limit_of(context, data.max_length)
    ids = [np.array(new) if len(new) <= limit else old for new, old in zip(found, plain, strict=True)]
    return np.concatenate(ids), np.array([len(piece) for piece in ids])


def _edges(found: tuple[Array, Array]) -> tuple[Array, Array]:
    """Turn lengths into the places where to cut."""
    flat, lengths = found
    return flat, np.cumsum(lengths)[:-1]
