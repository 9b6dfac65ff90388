"""Which columns of a table hold the text, the second text and the label: as told, or by the names that are usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qkv.common.errors import UsageError
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
    """The columns that were chosen.

    Attributes:
        text: the text, or the first of a pair.
        second: the second text, or None.
        label: the label or the score.
        header: the first line holds names and is no row.
    """

    text: Column
    second: Column | None
    label: Column
    header: bool

    def __str__(self) -> str:
        second = "" if self.second is None else f", second text {_said(self.second)}"
        return f"text {_said(self.text)}{second}, label {_said(self.label)}"


def choose_columns(
    table: Table,
    *,
    text: Column | None,
    second: Column | None,
    label: Column | None,
    header: bool | None,
    usual: Sequence[str] = LABELS,
) -> Columns:
    """Choose columns; None means the first of the usual names that the table has.

    Args:
        table: the opened file.
        text: the text; when None, a usual pair of texts is chosen before a single text.
        second: the second text of a pair.
        label: the label.
        header: the first line is names; None tells it by the first line itself.
        usual: the usual names of the label.
    """
    if table.format == "label-first":
        return Columns(text=1, second=None, label=0, header=False)
    if text is None:
        pair = _usual_pair(table) if second is None else None
        text, second = pair or (usual_column(table, TEXTS, "text"), second)
    text, second = as_column(text), None if second is None else as_column(second)
    label = usual_column(table, usual, "label") if label is None else as_column(label)
    wanted = [column for column in (text, second, label) if column is not None]
    found = has_header(table, wanted, (*TEXTS, *usual)) if header is None else header and table.has_cells
    if table.has_cells and not found and any(isinstance(column, str) for column in wanted):
        raise UsageError(f"{table.start}: columns without a header are told by number, as #0, not {_said(text)}")
    table.check(wanted)
    return Columns(text, second, label, found)


def has_header(table: Table, wanted: Sequence[Column], usual: Sequence[str]) -> bool:
    """Tell whether the first line is names.

    It is when a column was asked for by name: a name that is not there is an error, not data. When all were asked for
    by number, it is when every one of those cells is a usual name.
    """
    if not table.has_cells:
        return False
    table.check(wanted)
    numbers = [column for column in wanted if isinstance(column, int)]
    return len(numbers) < len(wanted) or all(table.names[number].strip().lower() in usual for number in numbers)


def _usual_pair(table: Table) -> tuple[str, str] | None:
    known = _by_lower(table)
    if "text" in known:  # a title beside it is not one of a pair
        return None
    return next(((known[first], known[second]) for first, second in PAIRS if first in known and second in known), None)


def usual_column(table: Table, names: Sequence[str], what: str) -> str:
    """Return the first of the usual names, in any case, that the table has."""
    known = _by_lower(table)
    for name in names:
        if name in known:
            return known[name]
    there = ", ".join(shorten(name) for name in table.names)
    raise UsageError(f"{table.start}: no column has a usual name for the {what}; name one, or a number as #0 ({there})")


def _by_lower(table: Table) -> dict[str, str]:
    return {name.strip().lower(): name for name in reversed(table.names)}


def _said(column: Column) -> str:
    return f"#{column}" if isinstance(column, int) else repr(column)
