"""Texts or pairs of texts with classes or a score, from any table (see tables.py)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from qkv.common.errors import show
from qkv.data.bad_rows import BadRow, BadRows, check_policy, sift
from qkv.data.columns import LABELS, SCORES, Columns, choose_columns
from qkv.data.examples import Classified, Rated
from qkv.data.files import PathName, Paths, expand
from qkv.data.guess import ROWS, find_seen
from qkv.data.numbers import decimal_comma, number_of
from qkv.data.tables import Column, Table, open_table, text_of

E = TypeVar("E")


def classified(
    paths: Paths,
    *,
    text: Column | None = "text",
    second: Column | None = None,
    label: Column | None = "label",
    labels_separator: str | None = None,
    format: str | None = None,
    encoding: str = "",
    header: bool | None = None,
    bad: str = "stop",
    skipped: BadRows | None = None,
) -> Iterator[Classified]:
    """Read texts and their classes.

    Args:
        paths: one file, several, or a pattern.
        text: the column of the text; None looks for a common name (see `find_columns`).
        second: the column of the second text of a pair.
        label: the column of the label; None looks for a common name.
        labels_separator: separates the labels of a row, which may then have any number of them.
        format: one of `READERS`, if the file does not tell.
        encoding: of the files; empty detects it.
        header: whether the first line holds column names; None detects it.
        bad: stop at a row that cannot be used, or skip it.
        skipped: counts skipped rows.
    """

    def convert(where: str, cells: list[Any]) -> Classified:
        first, other = _texts(cells)
        return Classified(first, other, _labels(cells[-1], labels_separator), where)

    check_policy(bad)
    asked = {"text": text, "second": second, "label": label, "header": header, "usual": LABELS}
    tables = (open_table(path, format, encoding) for path in expand(paths))
    return _read(tables, asked, lambda _table, _label: convert, bad, skipped)


def rated(
    paths: Paths,
    *,
    text: Column | None = "text",
    second: Column | None = None,
    label: Column | None = "label",
    format: str | None = None,
    encoding: str = "",
    header: bool | None = None,
    bad: str = "stop",
    skipped: BadRows | None = None,
) -> Iterator[Rated]:
    """Read texts and their scores, which may have decimal commas. The arguments are those of `classified`."""

    def converter(table: Table, column: Column) -> Callable[[str, list[Any]], Rated]:
        comma = decimal_comma(find_seen(table, column).values) if table.has_cells else None

        def convert(where: str, cells: list[Any]) -> Rated:
            first, other = _texts(cells)
            return Rated(first, other, _score(cells[-1], comma), where)

        return convert

    check_policy(bad)
    asked = {"text": text, "second": second, "label": label, "header": header, "usual": SCORES}
    tables = (open_table(path, format, encoding) for path in expand(paths))
    return _read(tables, asked, converter, bad, skipped)


def find_columns(
    path: PathName,
    *,
    text: Column | None = None,
    second: Column | None = None,
    label: Column | None = None,
    format: str | None = None,
    encoding: str = "",
    header: bool | None = None,
    number: bool = False,
) -> Columns:
    """Return the columns that `classified` chooses, or `rated` if the label is a `number`."""
    usual = SCORES if number else LABELS
    table = open_table(path, format, encoding)
    return choose_columns(table, text=text, second=second, label=label, header=header, usual=usual)


def has_label_lists(
    path: PathName,
    *,
    text: Column | None = None,
    second: Column | None = None,
    label: Column | None = None,
    format: str | None = None,
    encoding: str = "",
) -> bool:
    """Return whether one of the first labels is a list of several; an empty list alone may be a missing label."""
    table = open_table(path, format, encoding)
    if table.has_cells:
        return False
    found = choose_columns(table, text=text, second=second, label=label, header=None).label
    rows = islice(table.select([] if found is None else [found], header=False), ROWS)
    return any(not isinstance(row, BadRow) and isinstance(row[0], list) and len(row[0]) > 1 for _, row in rows)


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Return the distinct labels in their canonical order: by number if all are numbers, else by name."""
    distinct = sorted(set(labels))
    return sorted(distinct, key=int) if all(name.isascii() and name.isdigit() for name in distinct) else distinct


def _read(
    tables: Iterable[Table],
    asked: dict[str, Any],
    converter: Callable[[Table, Column], Callable[[str, list[Any]], E]],
    bad: str,
    skipped: BadRows | None,
) -> Iterator[E]:
    for table in tables:
        chosen = choose_columns(table, **asked)
        wanted = [column for column in (chosen.text, chosen.second, chosen.label) if column is not None]
        convert = converter(table, wanted[-1])
        yield from sift(table.select(wanted, header=chosen.header), convert, bad, skipped)


def _texts(cells: list[Any]) -> tuple[str, str | None]:
    return text_of(cells[0], "text"), text_of(cells[1], "second text") if len(cells) == 3 else None


def _labels(value: Any, separator: str | None) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(_label(item) for item in value)
    if separator is not None and isinstance(value, str):
        return tuple(part.strip() for part in value.split(separator) if part.strip())
    return (_label(value),)


def _label(value: Any) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if value is None or isinstance(value, str):
        raise BadRow("the label is empty")
    raise BadRow(f"the label must be a name, got {show(value, 30)}")


def _score(value: Any, comma: bool | None) -> float:
    score = number_of(value, comma=comma)
    if score is None and number_of(value, comma=True) is not None:
        raise BadRow(f"the label {show(value, 30)} can be read in two ways: write it without the comma")
    if score is None:
        raise BadRow(f"the label must be a number, got {show(value, 30)}")
    if not math.isfinite(score):
        raise BadRow(f"the label must be a finite number, got {show(value, 30)}")
    return score
