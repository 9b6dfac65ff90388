"""Recognise the task of a table by the names and the contents of its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from qkv.common.errors import UsageError, unknown
from qkv.data.columns import LABELS, SCORES, as_name
from qkv.data.guess import FREE, Seen, guess_header, guess_label, look
from qkv.data.labelled import find_columns, sort_labels
from qkv.data.languages import is_language
from qkv.data.parallel import PAIRS
from qkv.data.tables import Table, as_column, open_table, shorten
from qkv.data.tagged import TAGS, WORDS
from qkv.recipes.recognise_text import two_languages
from qkv.recipes.recognised import Recognised, command, undecided

NUMBERS = ("score", "rating", "stars", "similarity", "value", "gold")  # names of numbers that are no classes
MANY = 20  # different numbers that are no classes
SHOWN = 4  # labels to show
WHOLE = re.compile(r"[+-]?\d+(\.0*)?")  # a whole number

Given = Mapping[str, str]  # keys of [data] that the user set: text, second, label, format, separator


def table_kind(path: str, given: Given) -> Recognised:
    """Recognise a table; columns that the user set are taken as they are."""
    table = open_table(path, given.get("format") or None)
    names = {name.strip().lower() for name in table.names}
    if {"question", "context", "answers"} <= names:
        return Recognised("answer", "questions, contexts and answers")
    if not table.has_cells and names & set(WORDS) and names & set(TAGS):
        return Recognised("tag", "lists of words and of tags")
    seen = look(table)
    if not given.get("label") and (pair := _translations(table)):
        texts = [next(column.values for column in seen if column.name == name) for name in pair]
        if not any(_repeats(values) for values in texts):
            return Recognised("translate", f"sentences in the columns {_quoted(*pair)}", _named(pair))
    label = _label(table, seen, given)
    if label is None:
        return _texts_only(table, seen)
    return _labelled(table, label, given)


def _translations(table: Table) -> list[str]:
    """Return the two columns that are named as source and target, or after two languages."""
    known = {name.strip().lower(): name for name in table.names}
    pair = next((pair for pair in PAIRS if all(name in known for name in pair)), None)
    if pair is not None:
        return [known[name] for name in pair]
    languages = [name for name in table.names if is_language(name)]
    return languages if len(languages) == 2 else []


def _label(table: Table, seen: Sequence[Seen], given: Given) -> Seen | None:
    """Return the column of the label: the given one, one with a common name, or the only one that can be it."""
    if asked := given.get("label"):
        found = next((one for one in seen if as_column(asked) in (one.name, one.place)), None)
        if found is None:
            raise unknown(f"column of {table.start}", asked, [shorten(name) for name in table.names])
        return found
    texts = {as_column(name) for key in ("text", "second") if (name := given.get(key))}
    free = [one for one in seen if not {one.name, one.place} & texts]
    by_name = {one.name.strip().lower(): one for one in reversed(free)}
    named = next((by_name[name] for name in (*LABELS, *SCORES) if name in by_name), None)
    if named is not None and (given.get("separator") or named.is_number or _repeats(named.values)):
        return named
    classes = [one for one in free if one.is_label]
    numbers = [one for one in free if one.is_score and not one.is_label]
    if len(classes) > 1 or (not classes and len(numbers) > 1):
        return guess_label(table, list(texts), number=not classes)  # raises the error that names them
    return next(iter(classes or numbers), None)


def _labelled(table: Table, label: Seen, given: Given) -> Recognised:
    number = _is_score(label) and not given.get("separator")
    header = not table.has_cells or any(name.strip().lower() in (*LABELS, *SCORES) for name in table.names)
    named = header or guess_header(label, number=number)
    column = label.name if named else f"#{label.place}"
    text, second = _texts(table, label, given, column, number=number)
    recipe = "regress" if number else "pairs" if second else "classify"
    where = _quoted(text, second) if second else _quoted(text)
    values = f"{'numbers' if number else _shown(label)} in {_quoted(column)}"
    changes = {"data.text": text, "data.second": second, "data.label": column}
    why = f"{'pairs of texts' if second else 'texts'} in {where}, {values}"
    if number and not given.get("label") and len(set(label.values)) <= MANY:
        why += f" (for classes, type `{command('classify', [table.path])}`)"
    return Recognised(recipe, why, {key: value for key, value in changes.items() if value})


def _is_score(label: Seen) -> bool:
    """Whether a label is a number to predict: it has fractions, many values, or the name of a number."""
    if not label.is_number:
        return False
    whole, distinct = all(map(WHOLE.fullmatch, label.values)), len(set(label.values))
    if whole and distinct <= 2:
        return False
    return not whole or distinct > MANY or label.name.strip().lower() in NUMBERS


def _texts(table: Table, label: Seen, given: Given, column: str, *, number: bool) -> tuple[str, str]:
    """Return the columns of the text and of the second text, as recipes name them."""
    asked: dict[str, Any] = {key: given.get(key) or None for key in ("text", "second", "format")}
    try:
        found = find_columns(table.path, **asked, label=column, number=number)
    except UsageError:
        free = [one for one in look(table) if one.place != label.place and _is_text(one)]
        if len(free) != 2 or given.get("text"):
            raise
        named = not column.startswith("#")
        first, second = (one.name if named else f"#{one.place}" for one in free)
        return first, second
    return as_name(found.text), as_name(found.second)


def _texts_only(table: Table, seen: Sequence[Seen]) -> Recognised:
    """Recognise a table without labels: translations, or nothing that can be decided."""
    texts = [one for one in seen if _is_text(one)] or [one for one in seen if one.values and not one.is_number]
    if len(texts) == 2:
        header = not table.has_cells
        names = [one.name if header else f"#{one.place}" for one in texts]
        more = f"data.text={names[0]} data.second={names[1]}"
        found = two_languages([table.path], texts[0].values, texts[1].values, "pairs of texts", more)
        return Recognised(found.recipe, found.why, _named(names) if len(seen) > 2 else {})
    there = ", ".join(shorten(name) for name in table.names)
    if len(texts) == 1 and len(seen) == 1:
        raise undecided([table.path], "texts without labels", f"`{command('pretrain-bert', [table.path])}`")
    how = command("classify", [table.path], "data.text=COLUMN data.label=COLUMN")
    raise undecided([table.path], f"no column looks like a label (columns: {there})", f"`{how}`")


def _named(pair: Sequence[str]) -> dict[str, str]:
    return {"data.text": pair[0], "data.second": pair[1]}


def _is_text(seen: Seen) -> bool:
    return bool(seen.values) and not seen.is_number and seen.words >= FREE


def _repeats(values: Sequence[str]) -> bool:
    return len(set(values)) <= len(values) / 2


def _shown(label: Seen) -> str:
    names = sort_labels(label.values)
    if len(names) == 1 or not _repeats(label.values):  # the first rows have one class, or several in each row
        return "classes"
    shown = ", ".join(shorten(name, 15) for name in names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    return f"{len(names)} classes ({shown})"


def _quoted(*columns: str) -> str:
    return " and ".join(name if isinstance(as_column(name), int) else repr(name) for name in columns)
