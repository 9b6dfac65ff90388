"""Guess the text and label columns from their contents, where their names do not decide.

review_body                          kind     id
"It broke after a day, and …"        bad      1041
"Fits well. My daughter loves it."   good     1042
free text of many words              few      all different
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRow
from qkv.data.numbers import decimal_comma, number_of
from qkv.data.tables import Column, Table, shorten

ROWS = 1000  # rows to inspect
FEW = 100  # the most different values of a label; each appears in two rows on average
FREE = 3  # the average number of words that tells a text from other columns of words
NAME = re.compile(r"[^\W\d][\w -]{0,39}")  # a column name
SHORT = 4  # the most words of a label, on average


@dataclass(frozen=True)
class Seen:
    """The contents of a column.

    Attributes:
        name: its name, or its first cell if there is no header.
        place: its number.
        values: the first values that are not empty, as text.
    """

    name: str
    place: int
    values: list[str]

    @property
    def words(self) -> float:
        """The average number of words."""
        return sum(len(value.split()) for value in self.values) / max(len(self.values), 1)

    @property
    def is_number(self) -> bool:
        """Whether every value is a number."""
        return bool(self.values) and None not in self.numbers

    @property
    def numbers(self) -> list[float | None]:
        """The values as numbers; None for one that is not a number."""
        comma = decimal_comma(self.values)
        return [number_of(value, comma=comma is not False) for value in self.values]

    @property
    def is_label(self) -> bool:
        """Whether a few short values repeat."""
        distinct = len(set(self.values))
        return 2 <= distinct <= min(FEW, len(self.values) / 2) and self.words <= SHORT

    @property
    def is_score(self) -> bool:
        """Whether it holds numbers other than row numbers."""
        numbers = [number for number in self.numbers if number is not None] if self.is_number else []
        steps = {b - a for a, b in pairwise(numbers)}
        return len(set(numbers)) > 1 and steps != {1.0}


def look(table: Table) -> list[Seen]:
    """Inspect the columns of a table; the first line of cells, which may be a header, is skipped."""
    values: list[list[str]] = [[] for _ in table.names]
    for where, row in islice(table.rows(), ROWS + 1):
        if isinstance(row, BadRow) or (table.has_cells and where == table.start):
            continue
        cells = row if table.has_cells else [row.get(name) for name in table.names]
        for kept, cell in zip(values, cells, strict=False):
            if said := _said(cell):
                kept.append(said)
    return [Seen(name, place, kept) for place, (name, kept) in enumerate(zip(table.names, values, strict=True))]


def find_seen(table: Table, column: Column) -> Seen:
    """Inspect one column."""
    return look(table)[table.names.index(column) if isinstance(column, str) else column]


def guess_label(table: Table, taken: Sequence[Column | None], *, number: bool) -> Seen:
    """Find the only column that can be the label, or the score if it must be a `number`."""
    free = _free(table, taken)
    found = [seen for seen in free if (seen.is_score if number else seen.is_label)]
    sign = "holds numbers" if number else "repeats a few short values"
    return _only(table, found, "label", sign)


def guess_text(table: Table, taken: Sequence[Column | None]) -> Seen:
    """Find the only column that can be the text: the only one with words, or the only one with many."""
    found = [seen for seen in _free(table, taken) if seen.values and not seen.is_number]
    if len(found) > 1:
        found = [seen for seen in found if seen.words >= FREE] or found
    return _only(table, found, "text", "holds texts")


def guess_header(seen: Seen, *, number: bool) -> bool:
    """Return whether the first line holds names, by the label column: labels repeat, and scores are numbers."""
    first = seen.name.strip()
    return number_of(first, comma=True) is None if number else first not in seen.values


def looks_like_name(seen: Seen) -> bool:
    """Return whether the first cell of a text column is a name like review_body, shorter than the texts below it."""
    return NAME.fullmatch(seen.name.strip()) is not None and len(seen.name.split()) < seen.words


def _free(table: Table, taken: Sequence[Column | None]) -> list[Seen]:
    places = {column % len(table.names) for column in taken if isinstance(column, int)}
    return [seen for seen in look(table) if seen.name not in taken and seen.place not in places]


def _only(table: Table, found: list[Seen], what: str, sign: str) -> Seen:
    if len(found) == 1:
        return found[0]
    how = f"choose one with --set data.{what}=NAME, or by number as in data.{what}=#0"
    if found:
        several = " or ".join(f"#{seen.place} {shorten(seen.name)!r}" for seen in found)
        pair = ", and add data.second=NAME for a pair of texts" if what == "text" else ""
        raise UsageError(f"{table.start}: the {what} could be {several}; {how}{pair}")
    there = ", ".join(shorten(name) for name in table.names)
    raise UsageError(f"{table.start}: no column has a common name for the {what} or {sign}; {how} (columns: {there})")


def _said(cell: Any) -> str:
    if cell is None:
        return ""
    return cell.strip() if isinstance(cell, str) else json.dumps(cell, default=str)
