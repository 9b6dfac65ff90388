"""Co-occurrence counts, the training data of GloVe (Pennington et al. 2014, sections 3 and 4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qkv.common.errors import UsageError

Ids = NDArray[np.int64]
Counts = NDArray[np.float64]
Sorted = tuple[Ids, Counts]  # pair numbers in ascending order, and the count of each

PAIRS = 1 << 23  # pairs to count at a time, about 300 MB


class Cells(NamedTuple):
    """The nonzero cells of the matrix X, one per pair of words: X is symmetric.

    Attributes:
        first: never above `second`. Shape: [cells].
        second: Shape: [cells].
        counts: Σ 1 / distance over all occurrences of the two words within a window. Shape: [cells].
    """

    first: Ids
    second: Ids
    counts: Counts


def cooccurrences(pieces: Iterable[ArrayLike], *, window: int, vocab_size: int) -> Cells:
    """Count pairs of words in pieces of text, given as word ids; no pair spans two pieces.

    Args:
        pieces: word ids, of any lengths; read one after the other.
        window: the largest distance that counts.
        vocab_size: larger than every word id.
    """
    if window < 1:
        raise UsageError(f"window must be at least 1, got {window}")
    parts: list[Sorted] = []
    for words, owner in _blocks(pieces, max(PAIRS // window, 1)):
        parts.append(_count(words, owner, window, vocab_size))
        # Merge parts of similar size, so that each count is moved only a few times.
        while len(parts) > 1 and len(parts[-2][0]) <= 2 * len(parts[-1][0]):
            parts[-2:] = [_join(parts[-2:])]
    pairs, counts = _join(parts)
    first, second = np.divmod(pairs, vocab_size)
    return Cells(first, second, np.where(first == second, 2 * counts, counts))  # next to itself, a word counts twice


def _blocks(pieces: Iterable[ArrayLike], size: int) -> Iterator[tuple[Ids, Ids]]:
    """Concatenate pieces up to a number of words; yield the words and the piece that each belongs to."""
    waiting: list[Ids] = []
    held = 0
    for piece in pieces:
        waiting.append(np.asarray(piece, dtype=np.int64))
        held += len(waiting[-1])
        if held >= size:
            yield np.concatenate(waiting), _owners(waiting)
            waiting, held = [], 0
    if waiting:
        yield np.concatenate(waiting), _owners(waiting)


def _owners(pieces: list[Ids]) -> Ids:
    return np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])


def _count(words: Ids, owner: Ids, window: int, vocab_size: int) -> Sorted:
    """Sort all pairs of a block; the distance is the last digit of the pair number, so one sort is enough."""
    found = []
    for far in range(1, min(window, len(words) - 1) + 1):
        near = owner[:-far] == owner[far:]
        a, b = words[:-far][near], words[far:][near]
        found.append((np.minimum(a, b) * vocab_size + np.maximum(a, b)) * window + (far - 1))
    pairs, far_less_one = np.divmod(np.sort(np.concatenate(found or [np.empty(0, np.int64)])), window)
    return _summed(pairs, 1 / (1.0 + far_less_one))


def _join(parts: list[Sorted]) -> Sorted:
    pairs = np.concatenate([pairs for pairs, _ in parts] or [np.empty(0, np.int64)])
    counts = np.concatenate([counts for _, counts in parts] or [np.empty(0)])
    order = np.argsort(pairs, kind="stable")  # fast on sorted runs
    return _summed(pairs[order], counts[order])


def _summed(pairs: Ids, counts: Counts) -> Sorted:
    """Sum the counts of equal pairs, which are adjacent."""
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    return pairs[starts], np.add.reduceat(counts, starts) if len(starts) else counts
