"""Texts without answers, for a model to answer: lines, lines with a tab between two texts, or columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRow, BadRows, sift
from qkv.data.columns import choose_texts
from qkv.data.config import DataConfig
from qkv.data.conll import is_conll, read_conll
from qkv.data.files import expand, read_lines
from qkv.data.tables import Column, Table, as_column, detect_format, open_table, text_of

Texts = tuple[str, ...]  # a text, or the two of a pair
Words = tuple[str, ...]
T = TypeVar("T")
WORDS = ("tokens", "words")
SIDES = ("text", "second text")


def read_texts(
    paths: Sequence[str],
    data: DataConfig,
    skipped: BadRows | None = None,
    *,
    pair: bool | None = False,
    usual: Sequence[str] = (),
) -> Iterator[tuple[str, Texts]]:
    """Yield the place and the texts of each row; blank lines are left out.

    Args:
        paths: files: one text per line, or tables by their endings.
        data: names the columns and says what happens to bad rows. Where it also has training files, the columns are
            theirs, and a table of texts may have others.
        skipped: counts skipped rows.
        pair: whether a row is a pair of texts; None decides by the columns, or by a tab in the first line.
        usual: names of the text column that come before all others.
    """

    def rows(path: str) -> Iterator[tuple[str, Any]]:
        if detect_format(path) is None:
            return _lines(path, bool(data.second) if pair else pair)
        return _cells(open_table(path), data, pair, usual)

    return _read(paths, rows, _texts, data, skipped)


def read_words(paths: Sequence[str], data: DataConfig, skipped: BadRows | None = None) -> Iterator[tuple[str, Words]]:
    """Yield the place and the words of each sentence: CoNLL columns, lists of words in rows, or words between spaces.

    The arguments are those of `read_texts`.
    """

    def rows(path: str) -> Iterator[tuple[str, Any]]:
        if is_conll(path):
            found = read_conll(path, data.text or None, None, "")
            return ((where, row if isinstance(row, BadRow) else row[:1]) for where, row in found)
        if detect_format(path) is None:
            return _lines(path, False)
        return _cells(open_table(path), data, False, WORDS)

    return _read(paths, rows, _words, data, skipped)


def _read(
    paths: Sequence[str],
    rows: Callable[[str], Iterator[tuple[str, Any]]],
    convert: Callable[[str, Any], T],
    data: DataConfig,
    skipped: BadRows | None,
) -> Iterator[T]:
    for path in expand(paths):
        empty = True
        for found in sift(rows(path), convert, data.bad, skipped):
            empty = False
            yield found
        if empty:
            raise UsageError(f"{path} has no text")


def _lines(path: str, pair: bool | None) -> Iterator[tuple[str, Any]]:
    """Yield the cells of each line."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        cells = line.split("\t") if pair is not False else [line]
        pair = len(cells) == 2 if pair is None else pair
        row: Any = cells if pair else [line]
        if pair and len(cells) != 2:
            row = BadRow(f"a pair is two texts with one tab between, got {len(cells) - 1} tabs")
        yield f"{path}:{number}", row


def _cells(table: Table, data: DataConfig, pair: bool | None, usual: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the cells with the texts of each row of a table."""
    given = {key: as_column(name) for key in ("text", "second") if (name := getattr(data, key))}
    there: set[Column] = {*table.names, *range(len(table.names))}
    if data.train and not there.issuperset(given.values()):
        given = {}
    if "text" not in given and (found := next((name for name in usual if name in table.names), None)):
        given["text"] = found
    chosen = choose_texts(table, text=given.get("text"), second=given.get("second"), pair=pair)
    columns = [column for column in (chosen.text, chosen.second) if column is not None]
    return table.select(columns, header=chosen.header)


def _texts(where: str, cells: Sequence[Any]) -> tuple[str, Texts]:
    return where, tuple(map(text_of, cells, SIDES))


def _words(where: str, cells: Sequence[Any]) -> tuple[str, Words]:
    if isinstance(cells[0], str):
        return where, tuple(text_of(cells[0], "text").split())
    read = partial(text_of, what="word")
    if not isinstance(cells[0], list | tuple) or not cells[0]:
        raise BadRow("the words must be a text or a list that is not empty")
    return where, tuple(map(read, cells[0]))
