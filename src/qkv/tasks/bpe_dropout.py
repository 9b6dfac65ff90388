"""BPE-dropout (Provilkov et al. 2020): drop random merges each time a training text is read."""

from __future__ import annotations

import numpy as np

from qkv.common.errors import UsageError
from qkv.data.config import DataConfig
from qkv.data.store import Store
from qkv.tasks.base import Array, Context
from qkv.tasks.batches import limit_of


def check_bpe_dropout(dropout: float, context: Context) -> bool:
    """Return whether merges are dropped; raise an error if the tokenizer or the rate does not allow it."""
    if dropout:
        try:
            context.text.encode(["a"], dropout=dropout, seed=0)
        except UsageError as error:
            raise UsageError(f"data.dropout: {error}") from None
    return bool(dropout)


def text_bytes(text: str) -> Array:
    """Return a text as bytes, which a store can hold."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


def drops(store: Store, dropout: float) -> bool:
    """Whether the texts of a store are tokenised again each time; validation texts never are."""
    return bool(dropout) and "train" in store.folder.parts[-2:]


def resplit(
    store: Store, side: str, rows: Array, context: Context, data: DataConfig, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Tokenise texts again with some merges dropped.

    The randomness comes from the batch's own generator, so the same batch is always tokenised the same way. A text that
    would become too long for the recipe or the model keeps its original tokens.
    """
    plain = np.split(*_edges(store.gather(side, rows)))
    texts = [piece.tobytes().decode() for piece in np.split(*_edges(store.gather(f"{side}_text", rows)))]
    found = context.text.encode(texts, dropout=data.dropout, seed=int(rng.integers(1 << 62))).ids
    limit = limit_of(context, data.max_length)
    ids = [np.array(new) if len(new) <= limit else old for new, old in zip(found, plain, strict=True)]
    return np.concatenate(ids), np.array([len(piece) for piece in ids])


def _edges(found: tuple[Array, Array]) -> tuple[Array, Array]:
    """Convert lengths to split points."""
    flat, lengths = found
    return flat, np.cumsum(lengths)[:-1]
