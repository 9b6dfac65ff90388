"""What a command answers: texts and pairs of texts, from arguments, lines, tables or CoNLL files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from qkv.cli.texts import STANDARD_INPUT, print_message, standard_input
from qkv.common.errors import QkvError, UsageError
from qkv.data.bad_rows import BadRow
from qkv.data.columns import choose_texts
from qkv.data.config import DataConfig
from qkv.data.conll import is_conll, read_conll
from qkv.data.files import read_lines
from qkv.data.tables import Table, as_column, detect_format, open_table


@dataclass(frozen=True)
class Item:
    """A text or a pair of texts.

    Attributes:
        texts: one or two.
        row: the columns of the table that it comes from, by name; empty if it does not come from a table.
    """

    texts: tuple[str, ...]
    row: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


@dataclass(frozen=True)
class Source:
    """Where the texts of a command come from.

    Attributes:
        arguments: texts on the command line, or "-" for standard input.
        file: a file instead: a table by its ending or by data.format, CoNLL columns, or one text per line.
        model: the model's folder, which may say how files were read in training.
        changes: values of `--set`.
    """

    arguments: Sequence[str]
    file: str | None = None
    model: str | None = None
    changes: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The file, for messages."""
        return self.file or "standard input"

    @property
    def has_rows(self) -> bool:
        """Whether the texts come from a table."""
        if self.file is None or is_conll(self.file):
            return False
        given = self._given
        return bool(given.format or detect_format(self.file, given.encoding))

    def items(self, *, pair: bool | None = False) -> Iterator[Item]:
        """Yield the texts. Lines are read on demand, except the first, so that an empty input is an error at once.

        Args:
            pair: whether a table holds pairs; None decides as in training.
        """
        if self.file is not None and self.arguments:
            raise UsageError("give either texts on the command line or --file, not both")
        if self.file is None and not self.arguments:
            raise UsageError("nothing to read: give texts, --file FILE, or - for standard input")
        if self.file is None and self.arguments != STANDARD_INPUT:
            _hint_at_files(self.arguments)
            return (Item((text,)) for text in self.arguments)
        found = self._rows(pair) if self.has_rows else (Item((text,)) for text in self._lines())
        first = next(found, None)
        if first is None:
            raise UsageError(f"{self.name} is empty: give at least one line")
        return chain([first], found)

    def named(self, text: str, second: str) -> Iterator[Item]:
        """Yield two columns of a table by their usual names, unless `--set` names others."""
        given = self._given
        names = [f"data.text={given.text or text}", f"data.second={given.second or second}"]
        return replace(self, changes=[*self.changes, *names]).items(pair=True)

    def lines(self) -> Iterator[str]:
        """Yield single texts."""
        return (item.texts[0] for item in self.items())

    @property
    def _given(self) -> DataConfig:
        """What `--set` says; without it, nothing slow is imported."""
        if not self.changes:
            return DataConfig()
        from qkv.common.config import override
        from qkv.recipes.schema import parse_change

        changes = {key.removeprefix("data."): value for key, value in map(parse_change, self.changes)}
        return override(DataConfig(), changes, where="data.")

    def _lines(self) -> Iterable[str]:
        encoding = self._given.encoding
        if self.file is None:
            return standard_input(encoding)
        if is_conll(self.file):
            return _sentences(self.file, encoding)
        return (text for _, text in read_lines(self.file, encoding=encoding))

    def _rows(self, pair: bool | None) -> Iterator[Item]:
        given = self._given
        table = open_table(str(self.file), given.format or None, given.encoding)
        known = self._trained(table) if not given.text else {}
        text, second = given.text or known.get("text"), given.second or known.get("second")
        chosen = choose_texts(table, text=text or None, second=second or None, pair=pair)
        if chosen.guessed:
            print_message(f"{table.path}: {chosen}, guessed from the values; set data.text to change this")
        return _items(table, [chosen.text, *([] if chosen.second is None else [chosen.second])], header=chosen.header)

    def _trained(self, table: Table) -> Mapping[str, str]:
        """Return the columns of training that the table has."""
        from qkv.runs.trained_on import trained_columns

        known = trained_columns(self.model) if self.model else {}
        there = {*table.names, *range(len(table.names))}
        columns = {as_column(known[key]) for key in ("text", "second") if known.get(key)}
        return known if columns <= there else {}


def _items(table: Table, columns: Sequence[str | int], *, header: bool) -> Iterator[Item]:
    """Yield the texts of each row; an empty cell is an empty text, so that every row gets an answer."""
    names = table.names if header or not table.has_cells else [f"#{number}" for number in range(len(table.names))]
    for where, row in table.rows():
        if header and where == table.start:
            continue
        cells = dict(zip(names, row, strict=False)) if table.has_cells and not isinstance(row, BadRow) else row
        keys = [names[column] if isinstance(column, int) else column for column in columns]
        if isinstance(cells, BadRow):
            raise QkvError(f"{where}: {cells}")
        if missing := [key for key in keys if key not in cells]:
            raise QkvError(f"{where}: the row has no column {missing[0]!r} (its columns: {', '.join(cells)})")
        yield Item(tuple("" if cells[key] is None else str(cells[key]) for key in keys), cells)


def _sentences(path: str, encoding: str) -> Iterator[str]:
    """Yield the sentences of a CoNLL file; a space within a word becomes a no-break space."""
    for where, row in read_conll(path, None, None, encoding):
        if isinstance(row, BadRow):
            raise QkvError(f"{where}: {row}")
        yield " ".join(word.replace(" ", "\u00a0") for word in row[0])


def _hint_at_files(texts: Sequence[str]) -> None:
    for text in texts:
        if len(text) < 1000 and "\0" not in text and os.path.isfile(text):
            print_message(f"{text} is a file: to read the texts in it, use --file {text}")
