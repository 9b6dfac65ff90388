"""CoNLL files: one word per line in columns, and a blank line after each sentence.

EU  NNP  I-NP  I-ORG             1  Dogs  dog  NOUN  NNS  Number=Plur  2  nsubj  _  _
CoNLL-2003: word and last column CoNLL-U: FORM and UPOS; lines such as 1-2 and 3.1 are no words
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qkv.common.errors import QkvError, UsageError, show, unknown
from qkv.data.bad_rows import BadRow
from qkv.data.files import PathName, content_name, read_lines
from qkv.data.tables import Column, as_column

Sentence = tuple[Sequence[str], Sequence[str]]
Rows = Iterator[tuple[str, Sentence | BadRow]]

FIELDS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")  # of CoNLL-U
CONLL = (".conll", ".conllu", ".iob", ".iob2", ".bio")  # endings


@dataclass(frozen=True)
class ConllColumns:
    """The columns of a file.

    Attributes:
        word: the number of the column with the words.
        tag: the number of the column with the tags.
        width: the number of columns.
        universal: whether the file is CoNLL-U.
    """

    word: int
    tag: int
    width: int
    universal: bool

    def __str__(self) -> str:
        if self.universal:
            return f"words {FIELDS[self.word]}, tags {FIELDS[self.tag]}"
        last = f", the last of {self.width}" if self.width > 2 and self.tag in (-1, self.width - 1) else ""
        return f"words #{self.word % self.width}, tags #{self.tag % self.width}{last}"


def is_conll(path: PathName) -> bool:
    """Return whether the ending of a name means CoNLL columns."""
    return content_name(path).lower().endswith(CONLL)


def find_conll_columns(
    path: str, word: Column | None = None, tag: Column | None = None, encoding: str = ""
) -> ConllColumns:
    """Find the columns of a file; None means the usual ones."""
    for block in _blocks(path, encoding):
        return _columns(path, _cells(block[0][1]), word, tag)
    raise QkvError(f"{path} contains no words")


def read_conll(path: str, word: Column | None, tag: Column | None, encoding: str) -> Rows:
    """Yield the place, the words and the tags of each sentence."""
    columns = None
    for block in _blocks(path, encoding):
        lines = [(number, _cells(line)) for number, line in block]
        columns = columns or _columns(path, lines[0][1], word, tag)
        if columns.universal:
            lines = [(number, cells) for number, cells in lines if not {"-", "."} & set(cells[0])]
        if lines:
            yield _sentence(path, lines, columns)


def _columns(path: str, cells: list[str], word: Column | None, tag: Column | None) -> ConllColumns:
    universal = content_name(path).lower().endswith(".conllu") or (
        len(cells) == len(FIELDS) and cells[0].partition("-")[0] == "1"
    )
    usual = (1, 3) if universal else (0, -1)
    found = [
        default if column is None else _number(path, column, universal)
        for column, default in zip((word, tag), usual, strict=True)
    ]
    return ConllColumns(found[0], found[1], len(cells), universal)


def _number(path: str, column: Column, universal: bool) -> int:
    column = as_column(column)
    if isinstance(column, int):
        return column
    if not universal:
        raise UsageError(f"{path}: columns of CoNLL files are numbers from 0, such as #0, got {show(column, 30)}")
    if column.upper() not in FIELDS:
        raise unknown(f"column of {path}", column, FIELDS)
    return FIELDS.index(column.upper())


def _blocks(path: str, encoding: str) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines of each sentence."""
    block: list[tuple[int, str]] = []
    for number, line in read_lines(path, encoding=encoding):
        if line.strip() and not line.startswith("-DOCSTART-"):
            block.append((number, line))
        elif block := _without_comments(block):
            yield block
            block = []
    if block := _without_comments(block):
        yield block


def _without_comments(block: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Remove CoNLL-U comments. Where spaces separate columns, a line that starts with # is a word."""
    tabbed = any("\t" in line for _, line in block)
    return [(number, line) for number, line in block if not (tabbed and line.startswith("#") and "\t" not in line)]


def _cells(line: str) -> list[str]:
    # Not split(): a word may contain a no-break space.
    return line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]


def _sentence(path: str, lines: list[tuple[int, list[str]]], columns: ConllColumns) -> tuple[str, Sentence | BadRow]:
    """Select two columns; every line must have as many columns as the first line of the file."""
    words, tags = [], []
    for number, cells in lines:
        problem = _problem(cells, columns)
        if problem:
            return f"{path}:{number}", BadRow(problem)
        words.append(cells[columns.word])
        tags.append(cells[columns.tag])
    return f"{path}:{lines[0][0]}", (words, tags)


def _problem(cells: list[str], columns: ConllColumns) -> str | None:
    width, word, tag = columns.width, columns.word, columns.tag
    if len(cells) != width:
        found = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
        return f"{found} where the first line has {width}"
    if not all(-width <= column < width for column in (word, tag)) or word % width == tag % width:
        there, label = "1 column" if width == 1 else f"{width} columns", "the last" if tag < 0 else f"#{tag}"
        return f"the file has {there}, but data.text is #{word} and data.label is {label}"
    return None if cells[word] and cells[tag] else "the word or the tag is empty"
