"""One reader per table format: each turns a path into places and rows.

A row is a list of cells (TSV, CSV, label-first) or a record (JSONL, Parquet, Hub). A row that cannot be read becomes a
`BadRow`, so that the caller can continue with the next one.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import Any

from qkv.data.bad_rows import BadRow
from qkv.data.files import read_lines
from qkv.data.hub import hub_rows
from qkv.data.json_text import NotJson, parse
from qkv.data.limits import ROW
from qkv.data.parquet import parquet_rows

Rows = Iterator[tuple[str, Any]]

LONGEST = 1 << 24  # characters of one CSV cell; a quote that is never closed ends there


def read_tsv(path: str) -> Rows:
    """Split lines at tabs; skip empty lines."""
    for number, line in read_lines(path, ROW):
        if line:
            yield f"{path}:{number}", line.split("\t")


def read_label_first(path: str) -> Rows:
    """Split lines at the first space into a label and a text."""
    for number, line in read_lines(path, ROW):
        if line:
            yield f"{path}:{number}", line.split(None, 1)


def read_csv(path: str) -> Rows:
    """Read comma-separated cells; a quoted cell may hold commas, doubled quotes and line ends."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
    reader = csv.reader((line + "\n" for _, line in read_lines(path, ROW)), strict=True)
    while True:
        where = f"{path}:{reader.line_num + 1}"
        try:
            if row := next(reader):
                yield where, row
        except StopIteration:
            return
        except csv.Error as error:
            yield where, BadRow(f"not CSV: {error}")


def read_jsonl(path: str) -> Rows:
    """Read one JSON object per line; the languages in a nested `translation` become columns."""
    for number, line in read_lines(path, ROW):
        if line.strip():
            yield f"{path}:{number}", _record(line)


def read_parquet(path: str) -> Rows:
    """Read the rows of a Parquet file."""
    return ((where, row if isinstance(row, BadRow) else _flat(row)) for where, row in parquet_rows(path))


def read_hub(path: str) -> Rows:
    """Read the rows of a data set on the Hugging Face Hub."""
    return ((where, _flat(row)) for where, row in hub_rows(path))


READERS: dict[str, Callable[[str], Rows]] = {
    "tsv": read_tsv,
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "label-first": read_label_first,
    "hub": read_hub,
}
LISTS = ("tsv", "csv", "label-first")  # formats whose rows are lists of cells


def _record(line: str) -> dict[str, Any] | BadRow:
    try:
        value = parse(line)
    except NotJson as error:
        return error
    return _flat(value) if isinstance(value, dict) else BadRow("not a JSON object; every line must be one object")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    inner = row.get("translation")
    return {**row, **inner} if isinstance(inner, dict) else row
