"""Which column holds the text and which the label, told by what stands in them where their names do not tell.

review_body                          kind     id
"It broke after a day, and …"        bad      1041
"Fits well. My daughter loves it."   good     1042
one text and another, of many words  few      all different
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRow
from qkv.data.table_readers import READERS
from qkv.data.tables import Column, Table, shorten

ROWS = 1000  # that are looked at
FEW = 100  # different values of a label, at most; each stands in two rows or more
FREE = 3  # words of a text, on average, where several columns might be one
SHORT = 4  # words of a label, on average at most


@dataclass(frozen=True)
class Seen:
    """What stands in a column.

    Attributes:
        name: or the first cell, where there is no header.
        place: its number.
        values: those of the first rows that are not empty, as text.
    """

    name: str
    place: int
    values: list[str]

    @property
    def words(self) -> float:
        """Words of a value, on average."""
        return sum(len(value.split()) for value in self.values) / max(len(self.values), 1)

    @property
    def is_number(self) -> bool:
        """Whether every value is a number."""
        return bool(self.values) and all(map(_is_number, self.values))

    @property
    def is_label(self) -> bool:
        """Whether a few short values come again and again."""
        distinct = len(set(self.values))
        return 2 <= distinct <= min(FEW, len(self.values) / 2) and self.words <= SHORT

    @property
    def is_score(self) -> bool:
        """Whether it holds numbers, other than those of the rows."""
        numbers = [float(value) for value in self.values] if self.is_number else []
        steps = {b - a for a, b in pairwise(numbers)}
        return len(set(numbers)) > 1 and steps != {1.0}


def look(table: Table) -> list[Seen]:
    """Look at the columns of a table; the first line of cells, which may be a header, is left out."""
    values: list[list[str]] = [[] for _ in table.names]
    for where, row in islice(READERS[table.format](table.path), ROWS + 1):
        if isinstance(row, BadRow) or (table.has_cells and where == table.start):
            continue
        cells = row if table.has_cells else [row.get(name) for name in table.names]
        for kept, cell in zip(values, cells, strict=False):
            if said := _said(cell):
                kept.append(said)
    return [Seen(name, place, kept) for place, (name, kept) in enumerate(zip(table.names, values, strict=True))]


def find_seen(table: Table, column: Column) -> Seen:
    """Look at one column."""
    return look(table)[table.names.index(column) if isinstance(column, str) else column]


def guess_label(table: Table, taken: Sequence[Column | None], *, number: bool) -> Seen:
    """Find the one column that can be the label, or the score where a `number` is wanted."""
    free = _free(table, taken)
    found = [seen for seen in free if (seen.is_score if number else seen.is_label)]
    sign = "numbers" if number else "a few short values again and again"
    return _only(table, found, "label", f"holds {sign}")


def guess_text(table: Table, taken: Sequence[Column | None]) -> Seen:
    """Find the one column that can be the text: the only one that holds words, or the only one that holds many."""
    found = [seen for seen in _free(table, taken) if seen.values and not seen.is_number]
    if len(found) > 1:
        found = [seen for seen in found if seen.words >= FREE] or found
    return _only(table, found, "text", "holds texts")


def guess_header(seen: Seen, *, number: bool) -> bool:
    """Tell whether the first line is names, by the column of the label: a label would come again, a number be one."""
    first = seen.name.strip()
    return not _is_number(first) if number else first not in seen.values


def _free(table: Table, taken: Sequence[Column | None]) -> list[Seen]:
    places = {column % len(table.names) for column in taken if isinstance(column, int)}
    return [seen for seen in look(table) if seen.name not in taken and seen.place not in places]


def _only(table: Table, found: list[Seen], what: str, sign: str) -> Seen:
    if len(found) == 1:
        return found[0]
    how = f"say which with --set data.{what}=NAME, or a number as #0"
    if found:
        several = " or ".join(f"#{seen.place} {shorten(seen.name)!r}" for seen in found)
        pair = ", and for a pair of texts data.second=NAME" if what == "text" else ""
        raise UsageError(f"{table.start}: the {what} may be {several}: {how}{pair}")
    there = ", ".join(shorten(name) for name in table.names)
    raise UsageError(f"{table.start}: no column has a usual name for the {what} or {sign}: {how} ({there})")


def _said(cell: Any) -> str:
    if cell is None:
        return ""
    return cell.strip() if isinstance(cell, str) else json.dumps(cell, default=str)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
