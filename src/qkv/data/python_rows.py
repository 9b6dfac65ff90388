"""Rows from Python: lists of dicts or tuples, dicts of columns, pandas data frames, data sets of `datasets`.

Nothing is imported for them: a data frame and a data set are told by their attributes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.errors import UsageError, show
from qkv.data.hub import named

NAMES = {2: ("text", "label"), 3: ("sentence1", "sentence2", "label")}  # columns of tuples, by their length
WORDS = ("tokens", "tags")  # if the first of a tuple is a list


def is_files(data: Any) -> bool:
    """Return whether `data` is a path or a sequence of paths, and not rows."""
    if isinstance(data, str | PathLike):
        return True
    return isinstance(data, list | tuple) and all(isinstance(path, str | PathLike) for path in data)


def records(data: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Python object as records.

    Args:
        data: rows, columns, a data frame or a data set.
        name: what to call it in messages.
    """
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        data = data.astype(object).where(data.notna(), None).to_dict("records")
    features = getattr(data, "features", None)
    if isinstance(data, Mapping):
        data = _by_row(data, name)
    if not isinstance(data, Iterable):
        raise UsageError(f"{name} takes files, rows, a data frame or a data set, got {show(data, 60)}")
    for number, row in enumerate(data, 1):
        record = _record(row, f"{name} row {number}")
        yield {key: named(features[key], value) for key, value in record.items()} if features else record


def write_rows(data: Any, name: str, file: Path) -> None:
    """Write rows as JSON lines; a file that is there already must hold the same rows."""
    text = "".join(_line(record, f"{name} row {number}") for number, record in enumerate(records(data, name), 1))
    if not text:
        raise UsageError(f"{name} has no rows")
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        disk.replace_file(file, text.encode("utf-8", "surrogatepass"))
    elif file.read_bytes() != text.encode("utf-8", "surrogatepass"):
        raise UsageError(f"{name} differs from {file}, the rows that the run started with: train in another folder")


def _by_row(columns: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a dict of columns."""
    if any(hasattr(column, "features") for column in columns.values()):
        raise UsageError(f"{name} has several splits: choose one, such as data[{next(iter(columns))!r}]")
    try:
        return (dict(zip(columns, row, strict=True)) for row in list(zip(*columns.values(), strict=True)))
    except (TypeError, ValueError):
        raise UsageError(f"{name} is a dict of columns, which must be lists of the same length") from None


def _record(row: Any, where: str) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return {str(key): value for key, value in row.items()}
    cells = list(row) if isinstance(row, Sequence) and not isinstance(row, str) else []
    names = WORDS if len(cells) == 2 and isinstance(cells[0], list | tuple) else NAMES.get(len(cells))
    if names is None:
        raise UsageError(f"{where} must be a dict, or a tuple such as (text, label), got {show(row, 60)}")
    return dict(zip(names, cells, strict=True))


def _line(record: Mapping[str, Any], where: str) -> str:
    filled = {key: None if isinstance(value, float) and value != value else value for key, value in record.items()}
    try:
        return json.dumps(filled, ensure_ascii=False, default=_plain) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{where} cannot be used: {error}") from None


def _plain(value: Any) -> Any:
    """Return the Python value of a number or an array of numpy."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{show(value, 60)} is neither text nor a number")
