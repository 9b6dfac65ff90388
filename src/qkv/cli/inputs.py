"""The input of the reading commands: pairs of texts, lines of words, questions with their contexts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from qkv.cli.items import Item, Source
from qkv.cli.texts import STANDARD_INPUT
from qkv.common.errors import UsageError
from qkv.data.encodings import decoded
from qkv.data.files import open_binary
from qkv.data.limits import WHOLE, too_large
from qkv.data.parallel import PAIRS
from qkv.data.tables import open_table
from qkv.predict import Entity

_BLANKED = re.compile(r"[^ \t]+")


def pairs(source: Source) -> Iterator[Item]:
    """Yield pairs of texts: two arguments each, two columns of a table, or lines with a tab between the two texts."""
    given = source.items(pair=True)
    if source.has_rows:
        return given
    if source.file is None and source.arguments != STANDARD_INPUT:
        if (count := len(source.arguments)) % 2:
            raise UsageError(f"a pair is two arguments, got {count} in all: the last pair has no second text")
        return (Item((*first, *second)) for first, second in zip(given, given, strict=True))
    return _sides(given, source.name)


def continuations(source: Source) -> Iterator[Item]:
    """Yield prompts with their continuations, as `pairs`; columns of a table have the names that training knows."""
    if source.has_rows and not any(change.startswith("data.text") for change in source.changes):
        names = {name.strip().lower(): name for name in open_table(str(source.file)).names}
        known = next((pair for pair in PAIRS if names.keys() >= {*pair}), None)
        if known is not None:
            return source.named(*(names[name] for name in known))
    return pairs(source)


def _sides(lines: Iterable[Item], name: str) -> Iterator[Item]:
    for number, line in enumerate(lines, 1):
        cells = line.texts[0].split("\t")
        if len(cells) != 2:
            raise UsageError(f"{name}:{number}: a pair is two texts with one tab between, got {len(cells) - 1} tabs")
        yield Item(tuple(cells))


def words_of(line: str) -> list[str]:
    """Return the words of a line, separated by spaces or tabs."""
    return _BLANKED.findall(line)


def in_line(line: str, found: list[Entity]) -> list[Entity]:
    """Set the positions of words to those in their line."""
    places = (word.span() for word in _BLANKED.finditer(line))
    return [replace(word, start=start, end=end) for word, (start, end) in zip(found, places, strict=True)]


def questions(source: Source, context: str | None, context_text: str | None) -> Iterator[dict[str, Any]]:
    """Yield questions with their contexts: one context for all, two columns of a table, or JSON objects, one a line."""
    if context is not None and context_text is not None:
        raise UsageError("give either --context or --context-text, not both")
    if context == "-" and source.arguments == STANDARD_INPUT:
        raise UsageError("standard input cannot hold both the questions and the context: put one of them in a file")
    text = context_text if context is None else _whole(context)
    if text is None and source.file is None and source.arguments != STANDARD_INPUT:
        raise UsageError("no context: give --context FILE, --context-text TEXT, or lines of JSON with --file or -")
    if source.has_rows:
        return _asked(source, text)
    return _rows(source.lines(), source.name, text)


def _asked(source: Source, context: str | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table with their questions; the columns are question and context unless --set says other."""
    found = source.named("question", "context") if context is None else source.items()
    for number, item in enumerate(found, 1):
        if not item.texts[0].strip():
            raise UsageError(f"{source.name}: the question in row {number} is empty")
        asked = {"question": item.texts[0], "context": item.texts[1] if context is None else context}
        yield {**item.row, **asked}


def _rows(lines: Iterable[str], name: str, context: str | None) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        row = {"question": line, "context": context} if context is not None else _object(line, f"{name}:{number}")
        if not row["question"].strip():
            raise UsageError(f"{name}:{number}: the question is empty")
        yield row


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("question", "context")):
        raise UsageError(f'{where}: expected {{"question": "…", "context": "…"}}; for plain questions give --context')
    return row


def _whole(context: str) -> str:
    """Read a context unchanged, including line ends, so that positions match the file."""
    name = "standard input" if context == "-" else context
    with sys.stdin.buffer if context == "-" else open_binary(context) as stream:
        data = stream.read(WHOLE + 1)
    if len(data) > WHOLE:
        raise too_large(name, "file", WHOLE)
    return decoded(data, name)
