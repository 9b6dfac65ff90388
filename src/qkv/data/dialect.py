"""Tell how a CSV file is written: its delimiter, its quotes and its escapes.

    text;rating            a delimiter splits every line into as many cells as the first line; a comma in a text or in a
    "good; cheap";4,5      decimal number does not. A file that no delimiter splits has one column.
    plain, and long;3,0

A first line such as `sep=;`, which Excel understands, names the delimiter.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

DELIMITERS = ("\t", ";", "|", ",")  # by how rarely they occur in texts: the first wins a tie
NAMED = re.compile(r"sep=(.)", re.IGNORECASE)
LONGEST = 1 << 24  # characters of one cell; a quote that is never closed ends there


@dataclass(frozen=True)
class Dialect:
    r"""How cells are written.

    Attributes:
        delimiter: the character between two cells.
        quote: the character around a cell that contains a delimiter, a quote or a line end.
        escaped: a quote in a cell is written \\" and not "".
        spaced: spaces after a delimiter are not part of the cell.
        named: the first line names the delimiter and is not a row.
    """

    delimiter: str = ","
    quote: str = '"'
    escaped: bool = False
    spaced: bool = False
    named: bool = False

    def reader(self, lines: Iterable[str]) -> Any:
        """Return a `csv.reader` over lines that end in a line feed."""
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote,
            doublequote=not self.escaped,
            escapechar="\\" if self.escaped else None,
            skipinitialspace=self.spaced,
            strict=True,
        )


def sniff(lines: Sequence[str], *, complete: bool) -> Dialect:
    """Find the dialect of a file.

    Args:
        lines: the first lines, without line ends.
        complete: whether these are all lines; otherwise the last row may continue.
    """
    if lines and (named := NAMED.fullmatch(lines[0].rstrip())):
        return Dialect(delimiter=named[1], named=True)
    best = max(map(Dialect, DELIMITERS), key=lambda one: _fit(lines, one, complete))
    if _fit(lines, best, complete)[0] < 1:
        others = [other for delimiter in DELIMITERS for other in _variants(lines, delimiter)]
        best = max([best, *others], key=lambda one: _fit(lines, one, complete))
    if _fit(lines, best, complete)[0] == 0:
        return Dialect()
    single = replace(best, quote="'")
    quoted = best.quote == '"' and single in _variants(lines, best.delimiter) and _fit(lines, single, complete)[0] == 1
    return single if quoted else best


def _variants(lines: Sequence[str], delimiter: str) -> Iterator[Dialect]:
    """Yield the dialects other than the plain one that the lines show signs of."""
    rows = [line.split(delimiter) for line in lines if line]
    cells = [cell.strip() for row in rows for cell in row]
    if not any(cell.startswith('"') for cell in cells):
        wrapped = sum(any(len(cell) > 1 and cell[0] == cell[-1] == "'" for cell in row) for row in rows)
        if 2 * wrapped >= len(rows):
            yield Dialect(delimiter, "'")
    spaced = any(cell.startswith(' "') for row in rows for cell in row[1:])
    escaped = any('\\"' in cell for cell in cells)
    if spaced or escaped:
        yield Dialect(delimiter, escaped=escaped, spaced=spaced)


def _fit(lines: Sequence[str], dialect: Dialect, complete: bool) -> tuple[float, float]:
    """Return the share of rows that are as wide as the first, and of rows without a space after a delimiter."""
    rows = list(_rows(lines, dialect, complete))
    width = len(rows[0] or ()) if rows else 0
    if width < 2:
        return 0.0, 0.0
    alike = sum(row is not None and len(row) == width for row in rows)
    spaced = sum(row is not None and any(cell.startswith(" ") for cell in row[1:]) for row in rows)
    return alike / len(rows), 1 - spaced / len(rows)


def _rows(lines: Sequence[str], dialect: Dialect, complete: bool) -> Iterator[list[str] | None]:
    """Yield the rows, None for one that is not CSV; blank lines are no rows."""
    reader = dialect.reader(line + "\n" for line in lines)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            if complete or reader.line_num < len(lines):
                yield None
            continue
        if row:
            yield row
