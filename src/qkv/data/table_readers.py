"""One reader per table format: each turns a path and an encoding into places and rows.

A row is a list of cells (TSV, CSV, label-first) or a record (JSON, fastText, folders, Parquet, Hub). A row that cannot
be read becomes a `BadRow`, so that the caller can continue with the next one.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRow
from qkv.data.dialect import Dialect, sniff
from qkv.data.files import read_lines, read_text
from qkv.data.hub import hub_rows
from qkv.data.json_text import NotJson, parse, parse_list
from qkv.data.limits import ROW
from qkv.data.parquet import parquet_rows

Rows = Iterator[tuple[str, Any]]

SAMPLE = 200  # lines that tell the dialect of a CSV file
SAMPLE_SIZE = 1 << 20  # characters, where lines are long
FASTTEXT = re.compile(r"((?:__label__\S+\s+)+)(.*)", re.DOTALL)


def read_tsv(path: str, encoding: str = "") -> Rows:
    """Split lines at tabs; skip empty lines."""
    for number, line in read_lines(path, ROW, encoding):
        if line:
            yield f"{path}:{number}", line.split("\t")


def read_label_first(path: str, encoding: str = "") -> Rows:
    """Split lines at the first space into a label and a text."""
    for number, line in read_lines(path, ROW, encoding):
        if line:
            yield f"{path}:{number}", line.split(None, 1)


def read_fasttext(path: str, encoding: str = "") -> Rows:
    """Read lines that begin with one or several `__label__NAME`."""
    for number, line in read_lines(path, ROW, encoding):
        if line.strip():
            found = FASTTEXT.fullmatch(line.strip())
            labels = [name.removeprefix("__label__") for name in found[1].split()] if found else []
            row = {"text": found[2], "label": labels} if found else BadRow("the line must be __label__NAME and a text")
            yield f"{path}:{number}", row


def read_csv(path: str, encoding: str = "") -> Rows:
    """Read cells in the dialect of the file; a quoted cell may hold delimiters, doubled quotes and line ends."""
    lines = (line for _, line in read_lines(path, ROW, encoding))
    head: list[str] = []
    size, rest = 0, False
    for line in lines:
        head.append(line)
        size += len(line)
        if rest := len(head) >= SAMPLE or size >= SAMPLE_SIZE:
            break
    dialect = sniff(head, complete=not rest)
    return _csv_rows(path, dialect, chain(head[dialect.named :], lines))


def _csv_rows(path: str, dialect: Dialect, lines: Iterator[str]) -> Rows:
    reader = dialect.reader(line + "\n" for line in lines)
    while True:
        where = f"{path}:{reader.line_num + 1 + dialect.named}"
        try:
            if row := next(reader):
                yield where, row
        except StopIteration:
            return
        except csv.Error as error:
            yield where, BadRow(f"not CSV: {error}")


def read_json(path: str, encoding: str = "") -> Rows:
    """Read one JSON object per line, or a list of objects; the languages in a nested `translation` become columns."""
    lines = ((number, line) for number, line in read_lines(path, ROW, encoding) if line.strip())
    first = next(lines, None)
    if first is not None and first[1].lstrip().startswith("["):
        lines.close()
        yield from _json_list(path, encoding)
    elif first is not None:
        for number, line in chain([first], lines):
            yield f"{path}:{number}", _record(line)


def _json_list(path: str, encoding: str) -> Rows:
    try:
        for line, value in parse_list(read_text(path, encoding)):
            yield f"{path}:{line}", _object(value)
    except NotJson as error:
        yield f"{path}:{error.line}", error


def read_folder(path: str, encoding: str = "") -> Rows:
    """Read a folder with a sub-folder of text files for each class; names that begin with _ or . are ignored."""
    classes = [place for place in sorted(Path(path).iterdir()) if place.is_dir() and _is_visible(place)]
    found = False
    for place in classes:
        for file in sorted(file for file in place.rglob("*") if file.is_file() and _is_visible(file)):
            found = True
            yield f"{file}:1", {"text": read_text(file, encoding, path), "label": place.name}
    if not found:
        how = f"{Path(path) / '*'} matches the files in it, or give it a sub-folder of text files for each class"
        raise UsageError(f"{path} is a folder, not a file; {how}")


def read_parquet(path: str, encoding: str = "") -> Rows:
    """Read the rows of a Parquet file."""
    del encoding
    return ((where, row if isinstance(row, BadRow) else _flat(row)) for where, row in parquet_rows(path))


def read_hub(path: str, encoding: str = "") -> Rows:
    """Read the rows of a data set on the Hugging Face Hub."""
    del encoding
    return ((where, _flat(row)) for where, row in hub_rows(path))


READERS: dict[str, Callable[[str, str], Rows]] = {
    "tsv": read_tsv,
    "csv": read_csv,
    "jsonl": read_json,
    "parquet": read_parquet,
    "label-first": read_label_first,
    "fasttext": read_fasttext,
    "folder": read_folder,
    "hub": read_hub,
}
LISTS = ("tsv", "csv", "label-first")  # formats whose rows are lists of cells


def _is_visible(place: Path) -> bool:
    return not place.name.startswith(("_", "."))


def _record(line: str) -> dict[str, Any] | BadRow:
    try:
        return _object(parse(line))
    except NotJson as error:
        return error


def _object(value: Any) -> dict[str, Any] | BadRow:
    return _flat(value) if isinstance(value, dict) else BadRow("not a JSON object; every row must be one object")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    inner = row.get("translation")
    return {**row, **inner} if isinstance(inner, dict) else row
