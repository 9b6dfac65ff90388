"""Prefetching: threads prepare batches and deliver them in order, with any number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from qkv.common.errors import UsageError
from qkv.data.order import Pick, Sampler

B = TypeVar("B")


@dataclass(frozen=True, eq=False)
class Loader(Generic[B]):
    """The batches of an order.

    Attributes:
        sampler: chooses the rows of each batch.
        collate: maps rows and a random generator to a batch. It must be pure and thread-safe.
        workers: threads. 0 prepares each batch on demand.
        ahead: batches to prefetch.
        epochs: the number of epochs, or None for an endless loader. In a distributed run, some processes may get one
            batch less; to keep them in sync, use None and stop by `sampler.fraction(position)`.
    """

    sampler: Sampler
    collate: Callable[[NDArray[Any], np.random.Generator], B]
    _: KW_ONLY
    workers: int = 1
    ahead: int = 4
    epochs: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("workers", 0), ("ahead", 1), ("epochs", 0)):
            if (value := getattr(self, name)) is not None and value < least:
                raise UsageError(f"{name} must be at least {least}, got {value}")

    def iterate(self, position: int = 0) -> Generator[tuple[B, int], None, None]:
        """Yield batches from a position on, each with the position after it. Closing the iterator stops the threads."""
        if self.workers == 0:
            return ((self._make(pick), pick.next_position) for pick in self._picks(position))
        return self._iterate_ahead(position)

    def _iterate_ahead(self, position: int) -> Generator[tuple[B, int], None, None]:
        picks = self._picks(position)
        waiting: deque[tuple[Future[B], int]] = deque()
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="qkv-loader")
        try:
            while True:
                while len(waiting) < max(self.ahead, self.workers) and (pick := next(picks, None)) is not None:
                    waiting.append((pool.submit(self._make, pick), pick.next_position))
                if not waiting:
                    return
                future, after = waiting.popleft()
                yield future.result(), after
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _picks(self, position: int) -> Iterator[Pick]:
        while True:
            pick = self.sampler.batch(position)
            if self.epochs is not None and pick.epoch >= self.epochs:
                return
            yield pick
            position = pick.next_position

    def _make(self, pick: Pick) -> B:
        return self.collate(pick.rows, np.random.default_rng(pick.seed))
