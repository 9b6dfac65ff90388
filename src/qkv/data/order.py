"""The order of the data: a pure function of the seed and the epoch. A position is one integer.

Nothing here has state. Computing a batch costs the same at any position of an epoch, so resuming is exact and instant,
and every process of a distributed run knows the whole order.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from qkv.common.errors import UsageError

Numbers = NDArray[np.int64]

ROUNDS = 8
FEWEST_BITS = 4  # with fewer bits, some orders of small sets are too frequent
MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))

BATCH_BITS = 24  # bits of a position that number the batch in its pool
POOL = 4096  # rows
POOL_BATCHES = 32  # the last batch of a pool is not full; with this many batches, little is lost


def mix(*numbers: int) -> int:
    """Combine several numbers into one seed, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(repr([int(n) for n in numbers]).encode(), digest_size=8).digest()) >> 1


@dataclass(frozen=True)
class Permutation:
    """A pseudo-random permutation of 0 ... n - 1 that is computed, not stored.

    A Feistel network (Luby and Rackoff, 1988) permutes the numbers below a power of two. It is applied repeatedly until
    the result is below n, which gives a permutation of 0 ... n - 1 (cycle walking: Black and Rogaway, 2002).
    """

    n: int
    seed: int

    def __call__(self, places: NDArray[Any]) -> Numbers:
        """Return the numbers at some places of the permutation, each below n."""
        found = self._shuffled(places.astype(np.uint64))
        while (outside := np.flatnonzero(found >= self.n)).size:
            found[outside] = self._shuffled(found[outside])
        return found.astype(np.int64)

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        return np.array([mix(self.seed, number) for number in range(ROUNDS)], dtype=np.uint64)

    def _shuffled(self, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        bits = max(FEWEST_BITS, (self.n - 1).bit_length())
        low_bits, high_bits = bits // 2, bits - bits // 2
        low, high = x & np.uint64((1 << low_bits) - 1), x >> np.uint64(low_bits)
        for number in range(0, ROUNDS, 2):
            low ^= _hashed(high, self._keys[number], low_bits)
            high ^= _hashed(low, self._keys[number + 1], high_bits)
        return high << np.uint64(low_bits) | low


class Pick(NamedTuple):
    """One batch of an order.

    Attributes:
        rows: the rows of the batch. Shape: [B].
        next_position: the position of the next batch.
        seed: the seed for randomness in this batch.
        epoch: the epoch of the batch, from 0.
    """

    rows: Numbers
    next_position: int
    seed: int
    epoch: int


class Sampler(Protocol):
    """An endless order of batches."""

    def batch(self, position: int) -> Pick:
        """Return the batch at a position; 0 is the first."""

    def epoch_of(self, position: int) -> int:
        """Return the epoch of a position, from 0."""

    def fraction(self, position: int) -> float:
        """Return the number of epochs before a position, as a fraction."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Sharded:
    """An order that is divided among several processes.

    A position refers to a round of `world` batches, one per rank, so it is the same for all ranks.
    """

    seed: int
    shuffle: bool = True
    rank: int = 0
    world: int = 1

    def shard(self, rank: int, world: int) -> Self:
        """Return the share of one process: batches rank, rank + world, ... of the same order."""
        if not 0 <= rank < world:
            raise UsageError(f"rank {rank} does not exist: {world} processes have the ranks 0 to {world - 1}")
        return dataclasses.replace(self, rank=rank, world=world)


@dataclass(frozen=True, eq=False)
class BucketSampler(_Sharded):
    """Batches of rows of similar length, up to a token budget; a longer row is a batch on its own.

    An epoch is a permutation of all rows, split into pools. Each pool is sorted by length and split into batches, which
    are then shuffled. A position is `(epoch * num_pools + pool) << 24 | batch`.

    Attributes:
        lengths: tokens of each row. Values are read when needed, so it can be memory-mapped. Shape: [rows].
        tokens: the token budget of a batch.
        seed: the seed of the order.
        pool: the maximum number of rows to sort together. If None, 4096, or more for large batches.
        max_sequences: the maximum number of rows in a batch.
        shuffle: if False, rows keep their order before the pools are sorted, for evaluation.
    """

    lengths: NDArray[Any]
    _: KW_ONLY
    tokens: int
    pool: int | None = None
    max_sequences: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", np.asarray(self.lengths))
        if self.lengths.ndim != 1 or not len(self.lengths):
            raise UsageError("there are no rows to make batches from")
        for name in ("tokens", "pool", "max_sequences"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")

    @cached_property
    def num_pools(self) -> int:
        """The number of pools in an epoch; their sizes differ by at most one row."""
        mean = max(1.0, float(self.lengths.mean()))
        size = self.pool or max(POOL, int(POOL_BATCHES * self.tokens / mean))
        return -(-len(self.lengths) // min(size, 1 << BATCH_BITS))

    def batch(self, position: int) -> Pick:
        """Return the batch at a position. This sorts its pool, but only once for consecutive batches of a pool."""
        mine = self._after(position, self.rank)
        block, number = mine >> BATCH_BITS, mine & ((1 << BATCH_BITS) - 1)
        epoch, pool = divmod(block, self.num_pools)
        seed = mix(self.seed, epoch, pool, number)
        return Pick(self._batches(block)[number].copy(), self._after(position, self.world), seed, epoch)

    def epoch_of(self, position: int) -> int:
        """Return the epoch of a position, from 0."""
        return (position >> BATCH_BITS) // self.num_pools

    def fraction(self, position: int) -> float:
        """Return the number of epochs before a position, as a fraction."""
        block, number = self._checked(position)
        return (block + number / len(self._batches(block))) / self.num_pools

    def _after(self, position: int, steps: int) -> int:
        block, number = self._checked(position)
        number += steps
        while number and number >= (count := len(self._batches(block))):
            block, number = block + 1, number - count
        return block << BATCH_BITS | number

    def _checked(self, position: int) -> tuple[int, int]:
        block, number = position >> BATCH_BITS, position & ((1 << BATCH_BITS) - 1)
        if position < 0 or (number and number >= len(self._batches(block))):
            raise UsageError(f"position {position} does not exist in this order: it belongs to other data or settings")
        return block, number

    @cached_property
    def _batches(self) -> Any:
        # A cache, not state: it can always be recomputed. It holds few pools, so that memory does not grow.
        return lru_cache(maxsize=4)(self._cut)

    def _cut(self, block: int) -> list[Numbers]:
        """Sort one pool by length and split it into batches."""
        (epoch, pool), total = divmod(block, self.num_pools), len(self.lengths)
        rows = np.arange(pool * total // self.num_pools, (pool + 1) * total // self.num_pools)
        if self.shuffle:
            rows = Permutation(total, mix(self.seed, epoch))(rows)
        lengths = self.lengths[rows]
        by_length = np.argsort(lengths, kind="stable")
        batches = np.split(rows[by_length], _cuts(lengths[by_length], self.tokens, self.max_sequences))
        if self.shuffle:
            order = Permutation(len(batches), mix(self.seed, epoch, pool))(np.arange(len(batches)))
            batches = [batches[number] for number in order]
        return batches


@dataclass(frozen=True, eq=False)
class WindowSampler(_Sharded):
    """Batches with a fixed number of windows of a packed stream.

    Leftover windows of an epoch are dropped or, without shuffling, are a smaller batch: evaluation reads everything.
    With shuffling, all windows of an epoch begin somewhat later, each time by another number of tokens, so that a text
    that is read many times is read with different beginnings.

    A position counts batches. Rows are the tokens that windows begin with.

    Attributes:
        num_windows: windows in the stream.
        windows: windows in a batch.
        seed: the seed of the order.
        shuffle: if False, windows keep the order of the stream.
        length: tokens per window.
        tokens: in the stream, or None for those of the windows.
    """

    num_windows: int
    _: KW_ONLY
    windows: int
    length: int = 1
    tokens: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.windows <= self.num_windows:
            raise UsageError(f"a batch cannot have {self.windows} windows: the stream has {self.num_windows}")

    @property
    def num_batches(self) -> int:
        """The number of batches in an epoch."""
        return self.num_windows // self.windows if self.shuffle else -(-self.num_windows // self.windows)

    def batch(self, position: int) -> Pick:
        """Return the batch at a position."""
        if position < 0:
            raise UsageError(f"position {position} does not exist: the first is 0")
        epoch, number = divmod(position + self.rank, self.num_batches)
        rows = np.arange(number * self.windows, min((number + 1) * self.windows, self.num_windows))
        if self.shuffle:
            rows = Permutation(self.num_windows, mix(self.seed, epoch))(rows)
        rows = rows * self.length
        if self.shuffle:
            last = (self.num_windows * self.length if self.tokens is None else self.tokens) - self.length
            rows = np.minimum(rows + mix(self.seed, epoch, self.length) % self.length, last)
        return Pick(rows, position + self.world, mix(self.seed, epoch, number), epoch)

    def epoch_of(self, position: int) -> int:
        """Return the epoch of a position, from 0."""
        return position // self.num_batches

    def fraction(self, position: int) -> float:
        """Return the number of epochs before a position, as a fraction."""
        return position / self.num_batches


def _hashed(x: NDArray[np.uint64], key: np.uint64, bits: int) -> NDArray[np.uint64]:
    mixed = (x + key) * MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(32)
    mixed *= MULTIPLIERS[1]
    # The upper bits of a product depend on all bits of its factors.
    return mixed >> np.uint64(64 - bits)


def _cuts(lengths: NDArray[Any], tokens: int, max_sequences: int | None) -> list[int]:
    """Return where to split sorted lengths so that no batch of two or more rows exceeds the budget."""
    ends = np.cumsum(lengths, dtype=np.int64)
    cuts: list[int] = []
    start, before = 0, 0
    while True:
        stop = max(int(ends.searchsorted(before + tokens, "right")), start + 1)
        if max_sequences is not None:
            stop = min(stop, start + max_sequences)
        if stop >= len(ends):
            return cuts
        cuts.append(stop)
        start, before = stop, int(ends[stop - 1])
