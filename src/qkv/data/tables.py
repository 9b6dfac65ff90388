"""Rows and columns of TSV, CSV, JSON, fastText, folders, Parquet and Hub data sets, one row at a time.

A column is a name or a number from 0, also written "#0". TSV has no quoting: a cell is everything between two tabs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qkv.common.errors import QkvError, UsageError, show, unknown
from qkv.common.unicode import is_well_formed
from qkv.data.bad_rows import BadRow
from qkv.data.files import PathName, check_rereadable, content_name, is_piped, read_lines
from qkv.data.hub import is_hub
from qkv.data.table_readers import LISTS, READERS

Column = str | int

ENDINGS = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
WORKBOOKS = (".xlsx", ".xls", ".ods")


@dataclass(frozen=True)
class Table:
    """A file of rows.

    Attributes:
        path: the file.
        format: one of `READERS`.
        names: the keys of the first row; for TSV and CSV, the cells of the first line, which may be a header.
        start: the place of the first row.
        encoding: as in `decoded_lines`.
    """

    path: str
    format: str
    names: tuple[str, ...]
    start: str
    encoding: str = ""

    @property
    def has_cells(self) -> bool:
        """Whether rows are lists of cells, so that the first may be a header; other rows name their columns."""
        return self.format in LISTS

    def rows(self) -> Iterator[tuple[str, Any]]:
        """Yield the place and the contents of each row, a header included; a `BadRow` if it cannot be read."""
        return READERS[self.format](self.path, self.encoding)

    def check(self, columns: Sequence[Column]) -> None:
        """Raise for a column that the first row does not have; JSONL rows may differ, so each is checked by itself."""
        for column in columns:
            if isinstance(column, int) and not -len(self.names) <= column < len(self.names):
                last = len(self.names) - 1
                raise UsageError(f"{self.start}: there is no column #{column}; the columns are #0 to #{last}")
            if isinstance(column, str) and self.format != "jsonl" and column not in self.names:
                raise unknown(f"column of {self.start}", column, [shorten(name) for name in self.names])

    def select(self, columns: Sequence[Column], *, header: bool) -> Iterator[tuple[str, list[Any] | BadRow]]:
        """Yield the place and the selected cells of each row, or the reason why the row cannot be read.

        Args:
            columns: the columns to select, in this order.
            header: whether the first line holds names; every row must then have as many cells.
        """
        self.check(columns)
        keys: list[Any] = [self._key(column) for column in columns]
        width = len(self.names) if header else None
        for where, row in self.rows():
            if not (header and where == self.start):
                yield where, row if isinstance(row, BadRow) else _cells(row, keys, width)

    def _key(self, column: Column) -> Column:
        """Return the index of a column in a list, or its key in a record."""
        if self.has_cells:
            return column if isinstance(column, int) else self.names.index(column)
        return self.names[column] if isinstance(column, int) else column


def open_table(path: PathName, format: str | None = None, encoding: str = "") -> Table:
    """Open a table and read its first row; without `format`, the ending of the file name decides."""
    name = str(path)
    kind = table_format(name, format, encoding)
    check_rereadable(name)
    problem = "contains no rows"
    for where, row in READERS[kind](name, encoding):
        if not isinstance(row, BadRow):
            return Table(name, kind, tuple(row), where, encoding)
        problem = problem if "(" in problem else f"contains no row that can be read ({where}: {row})"
    raise QkvError(f"{name} {problem}")


def table_format(path: str, format: str | None = None, encoding: str = "") -> str:
    """Return the format of a file; if its name does not tell, a folder or a first `__label__` does."""
    if format is not None and format not in READERS:
        raise unknown("data.format", format, READERS)
    if kind := format or detect_format(path, encoding):
        return kind
    check_rereadable(path)
    if Path(content_name(path)).suffix.lower() in WORKBOOKS:
        raise UsageError(f"{path} is an Excel workbook: save it as CSV")
    how = f"set data.format to one of {', '.join(READERS)}"
    raise UsageError(f"{path}: cannot tell the format from the name; {how}")


def detect_format(path: str, encoding: str = "") -> str | None:
    """Return the format by the ending of a name, or of a folder, or of lines that begin with `__label__`; else None."""
    if kind := find_format(path):
        return kind
    if os.path.isdir(path):
        return "folder"
    if Path(content_name(path)).suffix.lower() in WORKBOOKS or is_piped(path):
        return None
    first = next((line for _, line in read_lines(path, encoding=encoding) if line.strip()), "")
    return "fasttext" if first.startswith("__label__") else None


def find_format(path: str) -> str | None:
    """Return the format for the ending of a name, or None."""
    return "hub" if is_hub(path) else ENDINGS.get(Path(content_name(path)).suffix.lower())


def as_column(column: Column) -> Column:
    """Return a column, with "#3" as the number 3."""
    return int(column[1:]) if isinstance(column, str) and re.fullmatch(r"#\d+", column) else column


def text_of(value: Any, what: str) -> str:
    """Return the text of a cell, which must not be empty."""
    if value is None or value == "" or (isinstance(value, str) and not value.strip()):
        raise BadRow(f"the {what} is empty")
    if not isinstance(value, str):
        raise BadRow(f"the {what} must be a string, got {show(value, 30)}")
    if not is_well_formed(value):
        raise BadRow(f"the {what} contains a lone surrogate, which is not a character")
    return value


def shorten(text: str, length: int = 30) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= length else text[: length - 3] + "..."


def _cells(row: Any, keys: Sequence[Any], width: int | None) -> list[Any] | BadRow:
    cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
    if width is not None and len(row) != width:
        return BadRow(f"{cells} where the header has {width}")
    try:
        return [row[key] for key in keys]
    except IndexError:
        return BadRow(f"the row has {cells}, so there is no column #{max(keys)}")
    except KeyError as error:
        return BadRow(f"the row has no column {error} (its columns: {', '.join(map(shorten, row))})")
