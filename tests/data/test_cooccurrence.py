"""Counts of pairs of words against a loop over every window."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.data import cooccurrence
from qkv.data.cooccurrence import cooccurrences


def by_hand(pieces: list[list[int]], window: int) -> dict[tuple[int, int], float]:
    """X as the paper defines it: every word, every word within its window on both sides, 1 / distance."""
    table: dict[tuple[int, int], float] = defaultdict(float)
    for piece in pieces:
        for i, word in enumerate(piece):
            for j in range(max(0, i - window), min(len(piece), i + window + 1)):
                if i != j:
                    table[word, piece[j]] += 1 / abs(i - j)
    return dict(table)


@given(
    pieces=st.lists(st.lists(st.integers(0, 5), max_size=12), max_size=6),
    window=st.integers(1, 7),
    pairs=st.sampled_from([1, 7, 30, 1 << 20]),
)
def test_counts_are_those_of_the_loop(pieces: list[list[int]], window: int, pairs: int) -> None:
    before, cooccurrence.PAIRS = cooccurrence.PAIRS, pairs  # small blocks, so that parts are joined
    try:
        cells = cooccurrences(pieces, window=window, vocab_size=6)
    finally:
        cooccurrence.PAIRS = before
    found = {
        (i, j): count for i, j, count in zip(cells.first.tolist(), cells.second.tolist(), cells.counts, strict=True)
    }
    assert len(found) == len(cells.counts)
    wanted = by_hand(pieces, window)
    assert found.keys() == {(i, j) for i, j in wanted if i <= j}
    assert all(count == pytest.approx(wanted[i, j]) == pytest.approx(wanted[j, i]) for (i, j), count in found.items())


def test_a_large_vocabulary_does_not_overflow() -> None:
    top = 3_000_000
    cells = cooccurrences([[top - 1, top - 2, 0]], window=2, vocab_size=top)
    assert cells.first.tolist() == [0, 0, top - 2]
    assert cells.second.tolist() == [top - 2, top - 1, top - 1]
    np.testing.assert_allclose(cells.counts, [1, 0.5, 1])


def test_a_window_of_nothing_is_an_error() -> None:
    with pytest.raises(UsageError, match="window must be at least 1, got 0"):
        cooccurrences([[1, 2]], window=0, vocab_size=3)
