"""The order of a mixture: the orders of its parts side by side, and still one integer for a position."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qkv.data.order import Pick, Sampler, mix
from qkv.data.store import Store

BITS = 64  # of a position for each part; Python's integers have no end


@dataclass(frozen=True, eq=False)
class MixedSampler:
    """A batch of each part at a time. A position holds the parts' positions behind each other, the first lowest.

    The rows of a batch are pairs of a part's number and a row of it. An epoch ends when every part has been read to its
    end; shorter parts have begun anew by then.

    Attributes:
        parts: the order of each.
        once: a part that was read to its end brings nothing more, so that each row is met once, for evaluation.
    """

    parts: tuple[Sampler, ...]
    _: KW_ONLY
    once: bool = False

    def batch(self, position: int) -> Pick:
        """Return the batch at a position. Rows have the shape [B, 2]."""
        places = self._places(position)
        picks = [part.batch(place) for part, place in zip(self.parts, places, strict=True)]
        live = [not self.once or pick.epoch == 0 for pick in picks]
        rows = [np.stack([np.full(len(p.rows), i), p.rows], 1) for i, p in enumerate(picks) if live[i]]
        after = (pick.next_position if on else place for pick, place, on in zip(picks, places, live, strict=True))
        return Pick(
            np.concatenate(rows) if rows else np.empty((0, 2), np.int64),
            sum(place << BITS * i for i, place in enumerate(after)),
            mix(*(pick.seed for pick in picks)),
            min(pick.epoch for pick in picks),
        )

    def epoch_of(self, position: int) -> int:
        """Return how often every part has been read to its end."""
        return min(part.epoch_of(place) for part, place in zip(self.parts, self._places(position), strict=True))

    def fraction(self, position: int) -> float:
        """Return how many epochs of the slowest part lie before a position."""
        return min(part.fraction(place) for part, place in zip(self.parts, self._places(position), strict=True))

    def _places(self, position: int) -> list[int]:
        return [position >> BITS * i & ((1 << BITS) - 1) for i in range(len(self.parts))]


class Share(Store):
    """The rows and columns of one part of a store, as a store of their own."""

    def __init__(self, store: Store, name: str, first: int, last: int) -> None:
        self.folder, self.key = store.folder, store.key
        self._store, self._prefix, self._first, self._rows = store, f"{name}_", first, last - first
        columns = (column for column in store.columns if column.startswith(self._prefix))
        self.columns = tuple(column.removeprefix(self._prefix) for column in columns)

    def gather(self, column: str, rows: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the values of some rows behind each other, and the rows' lengths, as copies."""
        return self._store.gather(self._prefix + column, self._numbers(rows) + self._first)

    def lengths(self, column: str) -> NDArray[np.int32]:
        """Return the length of every row."""
        return self._store.lengths(self._prefix + column)[self._first : self._first + self._rows]

    # Rows of other parts are empty in these columns, so the streams are this part's alone.

    def spans(self, column: str, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[Any]:
        """Return stretches of the stream."""
        return self._store.spans(self._prefix + column, starts, lengths)

    def borders(
        self, column: str, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find where rows begin inside stretches of the stream."""
        return self._store.borders(self._prefix + column, starts, stops)

    def values(self, column: str) -> NDArray[Any]:
        """Return the whole stream of a column."""
        return self._store.values(self._prefix + column)
