"""Long texts: cut to a length, or read through windows that overlap.

    whole     [CLS] question [SEP] c0 c1 c2 c3 c4 c5 [SEP]
    window 0  [CLS] question [SEP] c0 c1 c2 c3 [SEP]
    window 1  [CLS] question [SEP]       c2 c3 c4 c5 [SEP]        stride 2: tokens that two windows share

The tokens of a text lie side by side whatever the template, so both are a choice of positions, with no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tokenizers import Encoding

from qkv.common.errors import UsageError

SHARED = 128  # tokens that two windows share, or a quarter of the window where that is less


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
    """Return the text that each token is from: 0, 1, or -1 for special tokens."""
    return [-1 if side is None else side for side in encoding.sequence_ids]


def cut(columns: Columns, sides: Sequence[int], max_length: int | None) -> Columns:
    """Cut lists that belong to the tokens of one input; the longer text is cut first, each at its end."""
    if max_length is None or len(sides) <= max_length:
        return columns
    return _chosen(columns, _kept(sides, max_length))


def windows(
    encoding: Encoding, spans: list[tuple[int, int]], side: int, max_length: int | None, stride: int
) -> list[Window]:
    """Return the windows of one input; only the text of `side` is cut."""
    sides = sides_of(encoding)
    columns = (encoding.ids, encoding.type_ids, spans, sides)
    return [Window(*_chosen(columns, rows)) for rows in _windows(sides, side, max_length, stride)]


def _chosen(columns: Columns, rows: Sequence[int]) -> Columns:
    return cast(Columns, tuple([column[row] for row in rows] for column in columns))


def _kept(sides: Sequence[int], max_length: int) -> list[int]:
    """Return the rows that stay."""
    lengths = (sides.count(0), sides.count(1))
    special = len(sides) - sum(lengths)
    if special > max_length:
        raise UsageError(f"max_length {max_length} is too small: the special tokens alone take {special}")
    shares = _shares(lengths, max_length - special)
    gone = {row for side in (0, 1) for row in _rows(sides, side)[shares[side] :]}
    return [row for row in range(len(sides)) if row not in gone]


def _windows(sides: Sequence[int], side: int, max_length: int | None, stride: int) -> list[list[int]]:
    """Return the rows of each window."""
    if stride < 0:
        raise UsageError(f"stride is {stride}; it must be 0 or more")
    length = sides.count(side)
    if max_length is None or len(sides) <= max_length:
        return [list(range(len(sides)))]
    room = max_length - (len(sides) - length)
    if room < 1:
        others = "the first text and the special tokens" if side else "the special tokens"
        raise UsageError(f"max_length {max_length} leaves no room: {others} take {len(sides) - length} tokens")
    if stride >= room:
        raise UsageError(f"stride {stride} must be less than the {room} tokens that a window has room for")
    first = sides.index(side)
    starts = range(0, length - stride, room - stride)  # the last window is the first that reaches the end
    before, after = list(range(first)), list(range(first + length, len(sides)))
    return [before + list(range(first + s, first + min(s + room, length))) + after for s in starts]


def _rows(sides: Sequence[int], side: int) -> list[int]:
    return [row for row, of in enumerate(sides) if of == side]


def _shares(lengths: tuple[int, int], room: int) -> tuple[int, int]:
    """Share `room` between two texts: the shorter keeps all it has up to one half; an odd token goes to the longer."""
    if sum(lengths) <= room:
        return lengths
    short, long = sorted(lengths)
    short = min(short, room // 2)
    long = room - short
    return (long, short) if lengths[0] > lengths[1] else (short, long)
