"""Long texts: truncate them, or split them into overlapping windows.

    whole     [CLS] question [SEP] c0 c1 c2 c3 c4 c5 [SEP]
    window 0  [CLS] question [SEP] c0 c1 c2 c3 [SEP]
    window 1  [CLS] question [SEP]       c2 c3 c4 c5 [SEP]        stride 2: tokens that two windows share

In every template the tokens of a text are contiguous, so both operations only select positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tokenizers import Encoding

from qkv.common.errors import UsageError

SHARED = 128  # tokens that two windows share, or a quarter of the window if that is less


@dataclass(frozen=True)
class Window:
    """A part of one input.

    Attributes:
        ids: the tokens.
        segments: the segment of each token.
        spans: (start, end) of each token in the original text of its side; (0, 0) for special tokens.
        sides: 0 for the first text, 1 for the second, -1 for special tokens.
    """

    ids: list[int]
    segments: list[int]
    spans: list[tuple[int, int]]
    sides: list[int]


Columns = TypeVar("Columns", bound=tuple[list[Any], ...])


def sides_of(encoding: Encoding) -> list[int]:
    """Return the text that each token comes from: 0, 1, or -1 for special tokens."""
    return [-1 if side is None else side for side in encoding.sequence_ids]


def cut(columns: Columns, sides: Sequence[int], max_length: int | None) -> Columns:
    """Truncate lists with one entry per token. Texts are cut at their end, the longer one of a pair first."""
    if max_length is None or len(sides) <= max_length:
        return columns
    return _chosen(columns, _kept(sides, max_length))


def windows(
    encoding: Encoding, spans: list[tuple[int, int]], side: int, max_length: int | None, stride: int
) -> list[Window]:
    """Return the windows of one input. Only the text of `side` is split."""
    sides = sides_of(encoding)
    columns = (encoding.ids, encoding.type_ids, spans, sides)
    plan = window_rows([of == side for of in sides], max_length, stride)
    return [Window(*_chosen(columns, rows)) for rows in plan]


def window_rows(inside: Sequence[bool], max_length: int | None, stride: int | None = None) -> list[list[int]]:
    """Return the token positions of each window over one text. Tokens around the text are part of every window.

    Args:
        inside: whether each token belongs to the text; these tokens are contiguous.
        max_length: the maximum number of tokens per window, or None for no limit.
        stride: the number of tokens shared with the previous window; None for `SHARED`, or less in small windows.
    """
    if stride is not None and stride < 0:
        raise UsageError(f"stride is {stride}; it must be 0 or more")
    size = len(inside)
    if max_length is None or size <= max_length:
        return [list(range(size))]
    own = [row for row, mine in enumerate(inside) if mine]
    first, last = (own[0], own[-1] + 1) if own else (size, size)
    around = size - (last - first)
    room = max_length - around
    if room < 1:
        raise UsageError(f"max_length {max_length} leaves no room: the tokens around the text take {around}")
    shared = min(SHARED, room // 4) if stride is None else stride
    if shared >= room:
        raise UsageError(f"stride {shared} must be less than the {room} text tokens of a window")
    before, after = list(range(first)), list(range(last, size))
    starts = range(first, last - shared, room - shared)  # stop at the first window that reaches the end
    return [[*before, *range(start, min(start + room, last)), *after] for start in starts]


def best_places(windows: Sequence[Sequence[int]]) -> dict[int, tuple[int, int]]:
    """Return for each token the window in which it is farthest from both ends, and its position there."""
    best: dict[int, tuple[int, int, int]] = {}
    for window, rows in enumerate(windows):
        for place, row in enumerate(rows):
            context = min(place, len(rows) - 1 - place)
            if row not in best or context > best[row][0]:
                best[row] = context, window, place
    return {row: (window, place) for row, (_, window, place) in best.items()}


def _chosen(columns: Columns, rows: Sequence[int]) -> Columns:
    return cast(Columns, tuple([column[row] for row in rows] for column in columns))


def _kept(sides: Sequence[int], max_length: int) -> list[int]:
    """Return the positions to keep."""
    lengths = (sides.count(0), sides.count(1))
    special = len(sides) - sum(lengths)
    if special > max_length:
        raise UsageError(f"max_length {max_length} is too small: the special tokens alone take {special}")
    shares = _shares(lengths, max_length - special)
    gone = {row for side in (0, 1) for row in _rows(sides, side)[shares[side] :]}
    return [row for row in range(len(sides)) if row not in gone]


def _rows(sides: Sequence[int], side: int) -> list[int]:
    return [row for row, of in enumerate(sides) if of == side]


def _shares(lengths: tuple[int, int], room: int) -> tuple[int, int]:
    """Divide `room` between two texts: the shorter one gets up to half, the longer one gets the rest."""
    if sum(lengths) <= room:
        return lengths
    short, long = sorted(lengths)
    short = min(short, room // 2)
    long = room - short
    return (long, short) if lengths[0] > lengths[1] else (short, long)
