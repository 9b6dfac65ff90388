"""Sentences with a tag for each word.

Files have CoNLL columns, one word per line and a blank line after each sentence; or they are JSONL, Parquet and Hub
data sets whose rows have two lists, words and tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from qkv.common.errors import UsageError
from qkv.data.bad_rows import BadRow, BadRows, check_policy, sift
from qkv.data.columns import usual_column
from qkv.data.examples import Tagged
from qkv.data.files import Paths, check_rereadable, expand, read_lines
from qkv.data.iob import check_scheme, detect_scheme, to_iob2
from qkv.data.tables import Column, find_format, open_table

Sentence = tuple[Sequence[str], Sequence[str]]
Rows = Iterator[tuple[str, Sentence | BadRow]]

WORDS = ("tokens", "words")
TAGS = ("ner_tags", "tags", "labels", "pos_tags", "chunk_tags")


def tagged(
    paths: Paths,
    *,
    word: Column = 0,
    tag: Column = -1,
    scheme: str | None = None,
    bad: str = "stop",
    skipped: BadRows | None = None,
) -> Iterator[Tagged]:
    """Read tagged sentences; entity tags are converted to IOB2.

    Args:
        paths: one file, several, or a pattern. Tabs or spaces separate columns; `-DOCSTART-` lines are skipped.
        word: the column of the words, from 0; a name if rows hold lists.
        tag: the column of the tags; -1 is the last.
        scheme: IOB1, IOB2, BIOES or plain; None detects it, which reads each file twice.
        bad: stop at a sentence that cannot be used, or skip it.
        skipped: counts skipped sentences.
    """
    check_policy(bad)
    check_scheme(scheme)
    return _read(expand(paths), word, tag, scheme, bad, skipped)


def _read(
    paths: list[str], word: Column, tag: Column, scheme: str | None, bad: str, skipped: BadRows | None
) -> Iterator[Tagged]:
    for path in paths:
        if scheme is None:
            check_rereadable(path)
        rows = _from_table if find_format(path) in ("jsonl", "parquet", "hub") else _from_file
        used = scheme or detect_scheme(row[1] for _, row in rows(path, word, tag) if not isinstance(row, BadRow))

        def convert(where: str, row: Sentence, used: str = used) -> Tagged:
            return Tagged(tuple(row[0]), to_iob2(row[1], used), where)

        yield from sift(rows(path, word, tag), convert, bad, skipped)


def _from_file(path: str, word: Column, tag: Column) -> Rows:
    if not isinstance(word, int) or not isinstance(tag, int):
        raise UsageError(f"{path}: columns of CoNLL files are numbers from 0, got {word!r} and {tag!r}")
    width = 0
    for block in _blocks(path):
        cells = [(number, _cells(line)) for number, line in block]
        width = width or len(cells[0][1])
        yield _sentence(path, cells, width, word, tag)


def _blocks(path: str) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines of each sentence."""
    block: list[tuple[int, str]] = []
    for number, line in read_lines(path):
        if line.strip() and not line.startswith("-DOCSTART-"):
            block.append((number, line))
        elif block:
            yield _without_comments(block)
            block = []
    if block:
        yield _without_comments(block)


def _without_comments(block: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Remove CoNLL-U comments. Where spaces separate columns, a line that starts with # is a word."""
    tabbed = any("\t" in line for _, line in block)
    return [(number, line) for number, line in block if not (tabbed and line.startswith("#") and "\t" not in line)]


def _cells(line: str) -> list[str]:
    # Not split(): a word may contain a no-break space.
    return line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]


def _sentence(
    path: str, lines: list[tuple[int, list[str]]], width: int, word: int, tag: int
) -> tuple[str, Sentence | BadRow]:
    """Select two columns; every line must have as many columns as the first line of the file."""
    words, tags = [], []
    for number, cells in lines:
        problem = _problem(cells, width, word, tag)
        if problem:
            return f"{path}:{number}", BadRow(problem)
        words.append(cells[word])
        tags.append(cells[tag])
    return f"{path}:{lines[0][0]}", (words, tags)


def _problem(cells: list[str], width: int, word: int, tag: int) -> str | None:
    if len(cells) != width:
        columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
        return f"{columns} where the first line has {width}"
    if not all(-width <= column < width for column in (word, tag)) or word % width == tag % width:
        return f"the file has {width} columns, but the word column is {word} and the tag column is {tag}"
    return None if cells[word] and cells[tag] else "the word or the tag is empty"


def _from_table(path: str, word: Column, tag: Column) -> Rows:
    table = open_table(path)
    columns = [
        word if isinstance(word, str) else usual_column(table, WORDS, "words"),
        tag if isinstance(tag, str) else usual_column(table, TAGS, "tags"),
    ]
    for where, cells in table.select(columns, header=False):
        yield where, cells if isinstance(cells, BadRow) else _lists(*cells)


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
