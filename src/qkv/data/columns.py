"""Choose the columns of a table that hold the text, the second text and the label.

You can name them. Otherwise common column names decide, and after them the contents of the columns (guess.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qkv.common.errors import UsageError
from qkv.data.guess import find_seen, guess_header, guess_label, guess_text, looks_like_name
from qkv.data.tables import Column, Table, as_column, shorten

TEXTS = (
    "text",
    "sentence",
    "review",
    "content",
    "document",
    "body",
    "comment",
    "tweet",
    "message",
    "title",
    "question",
    "prompt",
)
LABELS = ("label", "labels", "class", "category", "target", "sentiment", "topic", "tag", "quality", "stars", "rating")
SCORES = ("score", "rating", "stars", "similarity", "label", "target", "value", "gold")
PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("#1 string", "#2 string"),  # MRPC
    ("title", "description"),
    ("title", "content"),
)


@dataclass(frozen=True)
class Columns:
    """The chosen columns.

    Attributes:
        text: the text, or the first of a pair.
        second: the second text, or None.
        label: the label or the score; None if it was not asked for.
        header: whether the first line holds column names.
        guessed: whether the contents of a column decided.
    """

    text: Column
    second: Column | None
    label: Column | None
    header: bool
    guessed: bool = False

    def __str__(self) -> str:
        names = (("text", self.text), ("second text", self.second), ("label", self.label))
        return ", ".join(f"{what} {_said(column)}" for what, column in names if column is not None)


def choose_columns(
    table: Table,
    *,
    text: Column | None,
    second: Column | None,
    label: Column | None,
    header: bool | None,
    usual: Sequence[str] = LABELS,
) -> Columns:
    """Choose columns; None means the first common name that the table has.

    Args:
        table: the opened file.
        text: the text; None prefers a common pair of texts to a single text.
        second: the second text of a pair.
        label: the label.
        header: whether the first line holds column names; None detects it.
        usual: common names of the label column.
    """
    if table.format == "label-first":
        return Columns(text=1, second=None, label=0, header=False)
    if text is None:
        pair = _usual_pair(table) if second is None else None
        text, second = pair or (_usual(table, TEXTS), second)
    label = _usual(table, usual) if label is None else label
    text, second, label = (None if column is None else as_column(column) for column in (text, second, label))
    if text is None or label is None:
        return _guessed(table, text, second, label, header, number=usual is SCORES)
    wanted = [column for column in (text, second, label) if column is not None]
    found = has_header(table, wanted, (*TEXTS, *usual)) if header is None else header and table.has_cells
    if table.has_cells and not found and any(isinstance(column, str) for column in wanted):
        raise UsageError(f"{table.start}: without a header, give columns by number (#0), not {_said(text)}")
    table.check(wanted)
    return Columns(text, second, label, found)


def choose_texts(table: Table, *, text: Column | None, second: Column | None, pair: bool | None) -> Columns:
    """Choose the columns with the texts alone, by the same names as in training.

    Args:
        table: the opened file.
        text: the text; None looks for a common name, then at the contents.
        second: the second text of a pair.
        pair: whether to read pairs; None does if `second` or a common pair of names says so.
    """
    if pair is False:
        second = None
    if text is None and second is None and pair is not False:
        text, second = _usual_pair(table) or ((0, 1) if pair and len(table.names) == 2 else (None, None))
    if text is None:
        text = 0 if len(table.names) == 1 else _usual(table, TEXTS)
    if pair and second is None:
        how = f"set data.text and data.second (of: {_there(table)})"
        raise UsageError(f"{table.start}: cannot tell which columns hold the two texts of a pair; {how}")
    guessed = text is None
    if text is None:
        seen = guess_text(table, [second])
        text = seen.name if not table.has_cells or looks_like_name(seen) else seen.place
    wanted = [as_column(column) for column in (text, second) if column is not None]
    header = has_header(table, wanted, TEXTS)
    return Columns(wanted[0], wanted[1] if len(wanted) > 1 else None, None, header, guessed)


def _there(table: Table) -> str:
    return ", ".join(shorten(name) for name in table.names)


def _guessed(
    table: Table,
    text: Column | None,
    second: Column | None,
    label: Column | None,
    header: bool | None,
    *,
    number: bool,
) -> Columns:
    """Choose the columns that are not given by their contents; without a header they are numbers."""
    known = [column for column in (text, second, label) if column is not None]
    table.check(known)
    seen = guess_label(table, known, number=number) if label is None else find_seen(table, label)
    named = not table.has_cells or any(isinstance(column, str) for column in known)
    if not named:
        named = guess_header(seen, number=number) if header is None else header
    if label is None:
        label = seen.name if named else seen.place
    if text is None:
        found = guess_text(table, [second, seen.place])
        text = found.name if named else found.place
    return Columns(text, second, label, named and table.has_cells, guessed=True)


def has_header(table: Table, wanted: Sequence[Column], usual: Sequence[str]) -> bool:
    """Return whether the first line holds column names.

    It does if you give a column by name: a missing name is an error, not data. If you give all columns by number, it
    does if each of those cells is a common column name.
    """
    if not table.has_cells:
        return False
    table.check(wanted)
    numbers = [column for column in wanted if isinstance(column, int)]
    return len(numbers) < len(wanted) or all(table.names[number].strip().lower() in usual for number in numbers)


def _usual_pair(table: Table) -> tuple[Column, Column] | None:
    known = _by_lower(table)
    if "text" in known:  # then a title is not the first of a pair
        return None
    return next(((known[first], known[second]) for first, second in PAIRS if first in known and second in known), None)


def usual_column(table: Table, names: Sequence[str], what: str, key: str = "text") -> str:
    """Return the first common name that the table has, ignoring case; else raise an error that names data.`key`."""
    if (found := _usual(table, names)) is not None:
        return found
    how = f"set data.{key} to its name or its number, such as #0"
    raise UsageError(f"{table.start}: cannot tell which column holds the {what}; {how} (columns: {_there(table)})")


def _usual(table: Table, names: Sequence[str]) -> str | None:
    known = _by_lower(table)
    return next((known[name] for name in names if name in known), None)


def _by_lower(table: Table) -> dict[str, str]:
    return {name.strip().lower(): name for name in reversed(table.names)}


def as_name(column: Column | None) -> str:
    """Format a column as recipes do: a name, a number such as #0, or nothing."""
    return "" if column is None else f"#{column}" if isinstance(column, int) else column


def _said(column: Column) -> str:
    return as_name(column) if isinstance(column, int) else repr(column)
