"""Sentences and their translations: two files line by line, or two columns of one table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from qkv.common.errors import QkvError, UsageError
from qkv.data.bad_rows import BadRows, check_policy, sift
from qkv.data.columns import has_header
from qkv.data.examples import Parallel
from qkv.data.files import Paths, expand, read_lines
from qkv.data.tables import Column, Table, as_column, find_format, open_table, shorten, text_of

PAIRS = (("source", "target"), ("src", "tgt"))


def parallel(
    paths: Paths,
    *,
    columns: Sequence[Column] | None = None,
    format: str | None = None,
    header: bool | None = None,
    bad: str = "stop",
    skipped: BadRows | None = None,
) -> Iterator[Parallel]:
    """Read pairs of sentences.

    Two files must have the same number of lines; that they do not is known, and said, when the shorter one ends.

    Args:
        paths: two text files, source first; or tables.
        columns: the source and the target column of a table; by default named source and target (or src and tgt), or
            the first two of TSV and CSV, or the only two of JSONL.
        format: tsv, csv, jsonl or parquet, where the names do not tell it.
        header: whether the first line of a table holds names; None sees for itself.
        bad: stop at a pair with an empty side, or skip it.
        skipped: counts skipped pairs.
    """
    check_policy(bad)
    names = expand(paths)
    if columns is not None and len(columns) != 2:
        raise UsageError(f"parallel text takes two columns, source and target, got {len(columns)}")
    if format is None and columns is None and not any(find_format(name) for name in names):
        # A pattern that finds two files does not tell which of them is the source.
        if len(names) != 2 or isinstance(paths, str | os.PathLike):
            raise UsageError(
                f"parallel text is two files, source first, or a table (TSV, CSV, JSONL, Parquet): {paths}"
            )
        return sift(_lines(*names), _pair, bad, skipped)
    rows = (row for name in names for row in _rows(open_table(name, format), columns, header))
    return sift(rows, _pair, bad, skipped)


def _lines(source: str, target: str) -> Iterator[tuple[str, Any]]:
    number = 0
    right = read_lines(target)
    left = read_lines(source)
    for number, (first, second) in enumerate(zip_longest(left, right), 1):
        if first is None or second is None:
            longer = number + sum(1 for _ in (right if first is None else left))
            counts = (number - 1, longer) if first is None else (longer, number - 1)
            raise QkvError(f"{source} has {counts[0]} lines, {target} has {counts[1]}; parallel files have as many")
        yield f"{source}:{number}", (first[1], second[1])


def _rows(table: Table, columns: Sequence[Column] | None, header: bool | None) -> Iterator[tuple[str, Any]]:
    wanted = [as_column(column) for column in columns] if columns is not None else _usual_pair(table)
    usual = tuple(name for pair in PAIRS for name in pair)
    found = has_header(table, wanted, usual) if header is None else header and table.has_cells
    return table.select(wanted, header=found)


def _usual_pair(table: Table) -> list[Column]:
    for pair in PAIRS:
        if all(name in table.names for name in pair):
            return list(pair)
    if table.has_cells or len(table.names) == 2:
        return [0, 1]
    there = ", ".join(shorten(name) for name in table.names)
    raise UsageError(f"{table.start}: give the two columns of source and target ({there})")


def _pair(where: str, cells: Sequence[Any]) -> Parallel:
    return Parallel(text_of(cells[0], "source side"), text_of(cells[1], "target side"), where)
