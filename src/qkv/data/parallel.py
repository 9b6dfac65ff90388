"""Sentences and their translations: two files line by line, or two columns of one table.

A path that ends in `#train`, `#valid` or `#test` selects the pairs whose source hashes into that part: valid and test
get 1 % of the sources each. No source is in two parts, and in valid and test each source appears once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import Any

from qkv.common.errors import QkvError, UsageError
from qkv.data.archives import cut
from qkv.data.bad_rows import BadRows, check_policy, sift
from qkv.data.columns import has_header
from qkv.data.examples import Parallel
from qkv.data.files import Paths, expand, read_lines
from qkv.data.languages import is_language
from qkv.data.split import PARTS, cut_part, keeper
from qkv.data.tables import Column, Table, as_column, find_format, open_table, shorten, text_of

PAIRS = (
    ("source", "target"),
    ("src", "tgt"),
    ("original", "translation"),
    ("prompt", "completion"),
    ("prompt", "response"),
    ("prompt", "answer"),
    ("prompt", "continuation"),
    ("question", "answer"),
    ("input", "output"),
)
SIDES = ("source side", "target side")


def parallel(
    paths: Paths,
    *,
    columns: Sequence[Column] | None = None,
    format: str | None = None,
    encoding: str = "",
    header: bool | None = None,
    bad: str = "stop",
    skipped: BadRows | None = None,
    sides: tuple[str, str] = SIDES,
) -> Iterator[Parallel]:
    """Read pairs of sentences.

    Two files must have the same number of lines; a difference is an error when the shorter one ends.

    Args:
        paths: two text files, source first; or tables. A file with a tab in its first line is a table.
        columns: the source and the target column of a table; by default named source and target (or src and tgt), or
            the only two that are named after languages (en and de), or the first two of TSV and CSV, or the only two of
            JSONL.
        format: tsv, csv, jsonl or parquet, if the file names do not tell.
        encoding: of the files; empty detects it.
        header: whether the first line of a table holds column names; None detects it.
        bad: stop at a pair with an empty side, or skip it.
        skipped: counts skipped pairs.
        sides: what the two sides are called in messages.
    """
    pair = partial(_pair, sides=sides)
    check_policy(bad)
    names = [_named(name) for name in expand(paths)]
    if columns is not None and len(columns) != 2:
        raise UsageError(f"parallel text takes two columns, source and target, got {len(columns)}")
    if format is None and columns is None and not any(find_format(name) for name, _ in names):
        # If one pattern matches two files, it is not clear which is the source.
        if len(names) == 2 and not isinstance(paths, str | os.PathLike):
            (source, part), (target, same) = names
            if part != same:
                raise UsageError(f"{source} and {target} are read line by line: select the same part of both")
            return _parts([(sift(_lines(source, target, encoding), pair, bad, skipped), f"{source}#{part}", part)])
        if not all(_has_tabs(name, encoding) for name, _ in names):
            raise UsageError(
                f"parallel text takes two files, source first, or a table (TSV, CSV, JSONL, Parquet), got {paths}"
            )
    return _parts(
        (sift(_rows(_open(name, format, encoding), columns, header), pair, bad, skipped), f"{name}#{part}", part)
        for name, part in names
    )


def _named(name: str) -> tuple[str, str | None]:
    """Split a name into the file and its part; a file whose own name ends in #train has no part."""
    return (name, None) if os.path.exists(name) else cut_part(name)


def _parts(sources: Iterable[tuple[Iterator[Parallel], str, str | None]]) -> Iterator[Parallel]:
    """Yield the pairs of each source, or those of its part."""
    keepers = {part: keeper(part) for part in PARTS}
    found, asked = False, ""
    for pairs, name, part in sources:
        asked = asked or (name if part else "")
        for pair in pairs:
            if part is None or keepers[part](pair.source):
                found = True
                yield pair
    if asked and not found:
        raise QkvError(f"{asked} is empty: no source sentence of the file is in that part")


def _has_tabs(name: str, encoding: str) -> bool:
    """Return whether a file exists and its first line has several cells."""
    if not os.path.isfile(cut(name)[0]):
        return False
    return any("\t" in line for _, line in islice(read_lines(name, encoding=encoding), 1))


def _open(name: str, format: str | None, encoding: str) -> Table:
    kind = format or find_format(name) or ("tsv" if _has_tabs(name, encoding) else None)
    return open_table(name, kind, encoding)


def _lines(source: str, target: str, encoding: str) -> Iterator[tuple[str, Any]]:
    number = 0
    right = read_lines(target, encoding=encoding)
    left = read_lines(source, encoding=encoding)
    for number, (first, second) in enumerate(zip_longest(left, right), 1):
        if first is None or second is None:
            longer = number + sum(1 for _ in (right if first is None else left))
            raise QkvError(_unlike(source, target, number - 1, longer, first is None))
        yield f"{source}:{number}", (first[1], second[1])
    if number == 0:
        raise QkvError(f"{source} and {target} are empty")


def _unlike(source: str, target: str, short: int, long: int, source_ends: bool) -> str:
    """Describe which lines of two files have no partner."""
    counts = (short, long) if source_ends else (long, short)
    lines = f"line {long}" if long == short + 1 else f"lines {short + 1} to {long}"
    have = "has" if long == short + 1 else "have"
    of = target if source_ends else source
    return f"{source} has {counts[0]} lines, {target} has {counts[1]}: {lines} of {of} {have} no partner"


def _rows(table: Table, columns: Sequence[Column] | None, header: bool | None) -> Iterator[tuple[str, Any]]:
    wanted = [as_column(column) for column in columns] if columns is not None else _usual_pair(table)
    usual = tuple(name for pair in PAIRS for name in pair)
    found = has_header(table, wanted, usual) if header is None else header and table.has_cells
    return table.select(wanted, header=found)


def _usual_pair(table: Table) -> list[Column]:
    known = {name.strip().lower(): name for name in reversed(table.names)}
    for pair in PAIRS:
        if all(name in known for name in pair):
            return [known[name] for name in pair]
    languages = list(dict.fromkeys(name for name in table.names if is_language(name)))
    if len(languages) == 2:
        return [*languages]
    if len(languages) < 2 and (table.has_cells or len(table.names) == 2):
        return [0, 1]
    there = ", ".join(shorten(name) for name in table.names)
    raise UsageError(f"{table.start}: set data.text and data.second to two columns, source and target (of: {there})")


def _pair(where: str, cells: Sequence[Any], sides: tuple[str, str]) -> Parallel:
    source, target = (text_of(cell, side) for cell, side in zip(cells, sides, strict=True))
    return Parallel(source, target, where)
