"""Text for language models: a document is a line, a block between blank lines, a file, or a row of a table."""

from __future__ import annotations

from collections.abc import Iterator
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
