"""Document packing: fixed windows over the concatenated documents, split at the ends of documents.

documents    5 6 7 | 8 | 9 10 11 12
windows of 3 5 6 7   8 | 9 10   11 12 ...   all of the same size, so the shapes of a step never change
pieces       5 6 7   8   9 10               each a sequence of its own: attention never crosses a document

Attention in long windows costs more, and most training does not need it: windows can be short first and long later.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qkv.common.errors import UsageError
from qkv.data.order import Pick, WindowSampler
from qkv.data.store import Store
from qkv.data.store_writer import Array

SHORT = 0.9  # of a run's batches have short windows (Devlin et al. 2019, section A.2)


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of a column. Tokens after the last full window are a shorter one, which training does not read.

    Attributes:
        store: the documents, one per row.
        column: the column with the tokens.
        length: tokens per window.
    """

    store: Store
    column: str
    _: KW_ONLY
    length: int

    def __post_init__(self) -> None:
        if self.length < 1:
            raise UsageError(f"a window must have at least 1 token, got {self.length}")

    @property
    def count(self) -> int:
        """The number of full windows."""
        return self.tokens // self.length

    @property
    def total(self) -> int:
        """The number of windows, with the shorter one if there is one."""
        return -(-self.tokens // self.length)

    def window(self, number: int) -> list[Array]:
        """Return the pieces of one window, in order; together they have `length` tokens, or what is left."""
        values, lengths = self.gather([number * self.length])
        return np.split(values, np.cumsum(lengths)[:-1])

    def gather(self, starts: ArrayLike) -> tuple[Array, NDArray[np.int64]]:
        """Return the concatenated tokens of windows that begin at some tokens, and the lengths of their pieces."""
        starts = self._checked(starts)
        sizes = np.minimum(self.length, self.tokens - starts)
        values = self.store.spans(self.column, starts, sizes)
        inside, counts = self.store.borders(self.column, starts, starts + sizes)
        # Boundaries relative to the first of these windows; an empty document starts where the next one does.
        edges = np.append(0, np.cumsum(sizes))
        cuts = np.union1d(edges, inside + np.repeat(edges[:-1] - starts, counts))
        return values, np.diff(cuts)

    @property
    def tokens(self) -> int:
        """The number of tokens in the stream."""
        return len(self.store.values(self.column))

    def _checked(self, starts: ArrayLike) -> NDArray[np.int64]:
        wanted = np.asarray(starts, dtype=np.int64)
        for start in wanted[(wanted < 0) | (wanted >= self.tokens)].tolist():
            raise UsageError(f"no window begins at token {start}: there are {self.tokens} tokens")
        return wanted


@dataclass(frozen=True, eq=False)
class TwoWindows:
    """The same stream in short and in long windows: the beginnings of the long ones follow those of the short ones.

    Attributes:
        short: the short windows.
        long: the long windows.
    """

    short: Windows
    long: Windows

    def gather(self, starts: ArrayLike) -> tuple[Array, NDArray[np.int64]]:
        """Return the tokens of some windows, all short or all long, and the lengths of their pieces."""
        wanted = np.asarray(starts, dtype=np.int64)
        first = self.short.tokens
        return self.short.gather(wanted) if wanted.min() < first else self.long.gather(wanted - first)


@dataclass(frozen=True, eq=False)
class Staged:
    """Short windows first and long ones later, with the rows of `TwoWindows`.

    Attributes:
        short: the order of the short windows.
        long: the order of the long windows.
        first_long: the row of the first long window.
        switch: the position of the first long windows, or None for never; positions count batches in both orders.
    """

    short: WindowSampler
    long: WindowSampler
    first_long: int
    switch: int | None = None

    def over(self, batches: int) -> Staged:
        """Return the order for a run with a given number of batches."""
        return replace(self, switch=round(SHORT * batches))

    def batch(self, position: int) -> Pick:
        """Return the batch at a position."""
        if self.switch is None or position < self.switch:
            return self.short.batch(position)
        pick = self.long.batch(position - self.switch)
        rows, after = pick.rows + self.first_long, pick.next_position + self.switch
        return Pick(rows, after, pick.seed, self.epoch_of(position))

    def epoch_of(self, position: int) -> int:
        """Return the epoch of a position, from 0."""
        return int(self.fraction(position))

    def fraction(self, position: int) -> float:
        """Return the number of epochs before a position, as a fraction."""
        if self.switch is None or position < self.switch:
            return self.short.fraction(position)
        return self.short.fraction(self.switch) + self.long.fraction(position - self.switch)
