"""Text for language models: a document is a line, a block between blank lines, a file, or a row of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from qkv.common.errors import unknown
from qkv.data.bad_rows import BadRow, BadRows, check_policy, sift
from qkv.data.columns import TEXTS, has_header, usual_column
from qkv.data.examples import Document
from qkv.data.files import Paths, expand, read_lines, read_text
from qkv.data.tables import as_column, find_format, open_table, text_of

Texts = Iterator[tuple[str, str | BadRow]]


def documents(
    paths: Paths,
    *,
    unit: str = "line",
    column: str = "",
    encoding: str = "",
    bad: str = "stop",
    skipped: BadRows | None = None,
) -> Iterator[Document]:
    """Read documents; if the ending of a file name means a table, its rows are the documents.

    Args:
        paths: one file, several, or a pattern.
        unit: how plain text is divided: line (blank lines are skipped), blank (at blank lines), or file.
        column: the text column of a table; empty for the first with a common name.
        encoding: of the files; empty detects it.
        bad: stop at an empty document, or skip it.
        skipped: counts skipped documents.
    """
    check_policy(bad)
    if unit not in UNITS:
        raise unknown("unit", unit, UNITS)
    by_row = partial(_by_row, column=column)
    readers = [(path, by_row if find_format(path) else UNITS[unit]) for path in expand(paths)]
    texts = (found for path, read in readers for found in read(path, encoding))
    return sift(texts, lambda where, text: Document(text_of(text, "document"), where), bad, skipped)


def split_single(found: Iterator[Document], share: float) -> Iterator[Document]:
    """Split a text that is the only document by position: the last share of it is held out for validation.

    The cut is at the end of a line if there is one in that share, or else at white space.
    """
    first, second = next(found, None), next(found, None)
    if first is None:
        return
    place = _cut(first.text, share) if second is None and share else 0
    if not place:
        yield from (first, *(() if second is None else (second,)))
        yield from found
        return
    yield replace(first, text=first.text[:place], held_out=False)
    yield replace(first, text=first.text[place:], held_out=True)


def _cut(text: str, share: float) -> int:
    """Return where to cut a text so that about this share follows; 0 if nothing would be left on one side."""
    start, end = round(len(text) * (1 - share)), len(text.rstrip())
    for border in ("\n", " "):
        if 0 <= (place := text.find(border, max(0, start - 1), end)) < end - 1:
            return place + 1
    return start if 0 < start < end else 0


def _by_line(path: str, encoding: str) -> Texts:
    for number, line in read_lines(path, encoding=encoding):
        if line.strip():
            yield f"{path}:{number}", line


def _by_block(path: str, encoding: str) -> Texts:
    block: list[str] = []
    number = 0
    for number, line in read_lines(path, encoding=encoding):
        if line.strip():
            block.append(line)
        elif block:
            yield f"{path}:{number - len(block)}", "\n".join(block)
            block = []
    if block:
        yield f"{path}:{number - len(block) + 1}", "\n".join(block)


def _by_file(path: str, encoding: str) -> Texts:
    yield f"{path}:1", read_text(path, encoding)


def _by_row(path: str, encoding: str, column: str) -> Texts:
    """Yield the text column of a table."""
    table = open_table(path, encoding=encoding)
    text = as_column(column or usual_column(table, TEXTS, "text"))
    for where, cells in table.select([text], header=has_header(table, [text], TEXTS)):
        yield where, cells if isinstance(cells, BadRow) else cells[0]


UNITS = {"line": _by_line, "blank": _by_block, "file": _by_file}
