"""What every task says: how files become rows, rows become batches, and what is learned from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from qkv.common.batch import Tokens
from qkv.common.ragged import Ragged
from qkv.data.bad_rows import BadRow, BadRows, sift
from qkv.data.config import DataConfig
from qkv.data.order import BucketSampler, Sampler
from qkv.data.store import Store
from qkv.models import catalogue
from qkv.tokenizers.text import TextTokenizer

Array = np.ndarray[Any, Any]
Row = Mapping[str, Any]
Collate = Callable[[Array, np.random.Generator], Any]
T = TypeVar("T")

CHUNK = 1000  # texts that are tokenised at a time, in parallel


@dataclass(frozen=True)
class Context:
    """What a task works with.

    Attributes:
        data: where examples come from.
        tokenizer: or None for images.
        labels: names of the classes, in order.
        config: the model's.
        settings: the recipe's table `objective`.
        say: prints a line for the user.
        skipped: counts the rows that were left out.
    """

    data: DataConfig
    tokenizer: TextTokenizer | None
    labels: tuple[str, ...]
    config: Any
    settings: Mapping[str, Any]
    say: Callable[[str], None]
    skipped: BadRows = field(default_factory=BadRows)

    @property
    def text(self) -> TextTokenizer:
        """The tokenizer, where there must be one."""
        assert self.tokenizer is not None
        return self.tokenizer

    @property
    def reading(self) -> dict[str, Any]:
        """What every source is told about bad rows."""
        return {"bad": self.data.bad, "skipped": self.skipped}


class Task:
    """The defaults: rows with one column `ids`, batches by a token budget, no labels."""

    reads_text = True
    specials = "bert"  # the special tokens of a tokenizer trained for it
    heads: tuple[str, ...] = ()  # what the model must have

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield the texts to train a tokenizer on."""
        raise NotImplementedError

    def build(self, config: Any, settings: Mapping[str, Any]) -> nn.Module:
        """Build what is trained."""
        del settings
        return catalogue.build(config)

    def saved(self, model: nn.Module, config: Any, settings: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Say what is kept: a config and a model for each folder, the run's own being ""."""
        del settings
        return {"": (config, model)}

    def labels(self, paths: Sequence[str], data: DataConfig) -> tuple[str, ...]:
        """Find the names of the classes."""
        del paths, data
        return ()

    def no_answer(self, paths: Sequence[str], data: DataConfig) -> bool | None:
        """Say whether some questions have no answer; None where nothing is asked."""
        del paths, data
        return None

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Yield the columns of each example."""
        raise NotImplementedError

    def lengths(self, store: Store) -> Array:
        """Return the tokens that each example costs."""
        return store.lengths("ids")

    def sampler(self, store: Store, context: Context, *, tokens: int, seed: int, shuffle: bool) -> Sampler:
        """Say which rows make a batch."""
        del context
        return BucketSampler(self.lengths(store), tokens=tokens, seed=seed, shuffle=shuffle)

    def collate(self, store: Store, context: Context) -> Collate:
        """Return a pure function from row numbers to a batch."""
        raise NotImplementedError

    def objective(self, settings: Mapping[str, Any]) -> Any:
        """Return what to learn."""
        raise NotImplementedError


def chunks(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """Cut a stream into lists."""
    stream = iter(items)
    while chunk := list(islice(stream, size)):
        yield chunk


def known_only(
    examples: Iterable[Any], what: str, names: Callable[[Any], Iterable[str]], context: Context
) -> Iterator[Any]:
    """Give the examples whose labels or tags training knows; another one makes a bad row."""

    def check(_: str, example: Any) -> Any:
        if other := set(names(example)) - set(context.labels):
            raise BadRow(f"the {what} {min(other)!r} is not among those of training ({', '.join(context.labels)})")
        return example

    return sift(((example.where, example) for example in examples), check, **context.reading)


def tokens_of(flat: Array, lengths: Array, segments: Array | None = None, positions: Array | None = None) -> Tokens:
    """Make a batch of gathered ids."""
    more = (None if row is None else torch.from_numpy(row.astype(np.int64)) for row in (segments, positions))
    return Tokens(torch.from_numpy(flat.astype(np.int64)), Ragged.of(lengths.tolist()), *more)


def gathered(store: Store, rows: Array) -> Tokens:
    """Make a batch of rows that have ids, and segments where the store has them."""
    flat, lengths = store.gather("ids", rows)
    segments = store.gather("segments", rows)[0] if "segments" in store.columns else None
    return tokens_of(flat, lengths, segments)


def shifted(flat: Array, lengths: Array, start_id: int) -> Array:
    """Put a start token before each sequence and drop its last token: what a decoder reads."""
    found = np.empty_like(flat)
    found[1:] = flat[:-1]
    found[np.cumsum(lengths) - lengths] = start_id
    return found
