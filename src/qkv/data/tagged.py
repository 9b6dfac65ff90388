"""Sentences with a tag for each word.

Files have CoNLL columns (conll.py); or they are JSON, Parquet and Hub data sets whose rows have two lists, words and
tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRow, BadRows, check_policy, sift
from qkv.data.columns import usual_column
from qkv.data.conll import ConllColumns, Rows, Sentence, find_conll_columns, read_conll
from qkv.data.examples import Tagged
from qkv.data.files import Paths, check_rereadable, expand
from qkv.data.iob import check_scheme, detect_scheme, to_iob2
from qkv.data.remembered import remembered
from qkv.data.tables import Column, Table, as_column, find_format, open_table

LISTED = ("jsonl", "parquet", "hub")  # formats whose rows can hold lists
WORDS = ("tokens", "words")
TAGS = ("ner_tags", "tags", "labels", "pos_tags", "chunk_tags")


def tagged(
    paths: Paths,
    *,
    word: Column | None = None,
    tag: Column | None = None,
    scheme: str | None = None,
    encoding: str = "",
    bad: str = "stop",
    skipped: BadRows | None = None,
) -> Iterator[Tagged]:
    """Read tagged sentences; entity tags are converted to IOB2.

    Args:
        paths: one file, several, or a pattern. Tabs or spaces separate columns; `-DOCSTART-` lines are skipped.
        word: the column of the words, a number from 0 or a name; None is the first, FORM in CoNLL-U, or in rows with
            lists the first common name.
        tag: the column of the tags; None is the last, UPOS in CoNLL-U, or the first common name.
        scheme: IOB1, IOB2, BIOES or plain; None detects it, which reads each file twice.
        encoding: of the files; empty detects it.
        bad: stop at a sentence that cannot be used, or skip it.
        skipped: counts skipped sentences.
    """
    check_policy(bad)
    check_scheme(scheme)
    files = [(path, partial(_rows, path, word, tag, encoding)) for path in expand(paths)]
    return _read(files, scheme, bad, skipped)


def find_tag_columns(
    path: str, *, word: Column | None = None, tag: Column | None = None, encoding: str = ""
) -> ConllColumns | tuple[Column, Column]:
    """Return the columns that `tagged` reads."""
    if _has_lists(path):
        return _listed_columns(open_table(path, encoding=encoding), word, tag)
    return find_conll_columns(path, word, tag, encoding)


def _rows(path: str, word: Column | None, tag: Column | None, encoding: str) -> Rows:
    read = _from_table if _has_lists(path) else read_conll
    return read(path, word, tag, encoding)


def _has_lists(path: str) -> bool:
    """Return whether rows hold lists of words and tags; other files have CoNLL columns."""
    kind = find_format(path)
    if kind == "csv":
        how = "use CoNLL columns, one word per line, or JSON rows with two lists, words and tags"
        raise UsageError(f"{path}: tags of words cannot be read from CSV; {how}")
    return kind in LISTED


def _read(
    files: Sequence[tuple[str, partial[Rows]]], scheme: str | None, bad: str, skipped: BadRows | None
) -> Iterator[Tagged]:
    for path, rows in files:
        if scheme is None:
            check_rereadable(path)
        used = scheme or _scheme_of(path, rows)

        def convert(where: str, row: Sentence, used: str = used) -> Tagged:
            return Tagged(tuple(row[0]), to_iob2(row[1], used), where)

        yield from sift(rows(), convert, bad, skipped)


def _scheme_of(path: str, rows: partial[Rows]) -> str:
    def detect() -> str:
        return detect_scheme(row[1] for _, row in rows() if not isinstance(row, BadRow))

    return remembered("scheme", [path], detect, rows.args)


def _from_table(path: str, word: Column | None, tag: Column | None, encoding: str) -> Rows:
    table = open_table(path, encoding=encoding)
    for where, cells in table.select(_listed_columns(table, word, tag), header=False):
        yield where, cells if isinstance(cells, BadRow) else _lists(*cells)


def _listed_columns(table: Table, word: Column | None, tag: Column | None) -> tuple[Column, Column]:
    return (
        usual_column(table, WORDS, "words", "text") if word is None else as_column(word),
        usual_column(table, TAGS, "tags", "label") if tag is None else as_column(tag),
    )


def _lists(words: Any, tags: Any) -> Sentence | BadRow:
    """Check that there are as many tags as words and that none is empty."""
    if not isinstance(words, list) or not isinstance(tags, list) or not words:
        return BadRow("the words and the tags must be two lists that are not empty")
    if len(words) != len(tags):
        return BadRow(f"{len(words)} words, but {len(tags)} tags")
    if not all(isinstance(word, str) and word.strip() for word in words):
        return BadRow("a word is empty or not a string")
    if not all(isinstance(tag, str | int) and str(tag).strip() for tag in tags):
        return BadRow("a tag is empty or not a name")
    return words, [str(tag) for tag in tags]
