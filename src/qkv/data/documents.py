"""Plain text for language models: a document is a line, a block between blank lines, or a whole file."""

from __future__ import annotations

from collections.abc import Iterator

from qkv.common.errors import unknown
from qkv.data.bad_rows import BadRow, BadRows, check_policy, sift
from qkv.data.columns import TEXTS, usual_column
from qkv.data.examples import Document
from qkv.data.files import Paths, expand, read_lines, read_text
from qkv.data.hub import is_hub
from qkv.data.tables import open_table, text_of

Texts = Iterator[tuple[str, str | BadRow]]


def documents(
    paths: Paths, *, unit: str = "line", bad: str = "stop", skipped: BadRows | None = None
) -> Iterator[Document]:
    """Read documents.

    Args:
        paths: one file, several, or a pattern.
        unit: line (blank lines are left out), blank (lines up to a blank one), or file.
        bad: stop at an empty file, or skip it.
        skipped: counts skipped documents.
    """
    check_policy(bad)
    if unit not in UNITS:
        raise unknown("unit", unit, UNITS)
    readers = [(path, _by_row if is_hub(path) else UNITS[unit]) for path in expand(paths)]
    texts = (found for path, read in readers for found in read(path))
    return sift(texts, lambda where, text: Document(text_of(text, "document"), where), bad, skipped)


def _by_line(path: str) -> Texts:
    for number, line in read_lines(path):
        if line.strip():
            yield f"{path}:{number}", line


def _by_block(path: str) -> Texts:
    block: list[str] = []
    number = 0
    for number, line in read_lines(path):
        if line.strip():
            block.append(line)
        elif block:
            yield f"{path}:{number - len(block)}", "\n".join(block)
            block = []
    if block:
        yield f"{path}:{number - len(block) + 1}", "\n".join(block)


def _by_file(path: str) -> Texts:
    yield f"{path}:1", read_text(path)


def _by_row(path: str) -> Texts:
    """Give the text column of a data set of the hub, whose rows are documents already."""
    table = open_table(path)
    for where, cells in table.select([usual_column(table, TEXTS, "text")], header=False):
        yield where, cells if isinstance(cells, BadRow) else cells[0]


UNITS = {"line": _by_line, "blank": _by_block, "file": _by_file}
