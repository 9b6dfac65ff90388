"""The input of the reading commands: pairs of texts, lines of words, questions with their contexts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from qkv.cli.texts import STANDARD_INPUT, find_texts
from qkv.common.errors import UsageError
from qkv.data.files import open_binary
from qkv.data.limits import WHOLE, too_large
from qkv.predict import Entity

_BLANKED = re.compile(r"[^ \t]+")


def pairs(arguments: list[str], file: str | None) -> Iterator[tuple[str, str]]:
    """Yield pairs of texts: two arguments each, or lines with a tab between the two texts."""
    given = find_texts(arguments, file)
    if file is None and arguments != STANDARD_INPUT:
        if len(arguments) % 2:
            raise UsageError(f"a pair is two arguments, got {len(arguments)} in all: the last pair has no second text")
        return zip(given, given, strict=True)
    return _sides(given, file or "standard input")


def _sides(lines: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if len(cells) != 2:
            raise UsageError(f"{name}:{number}: a pair is two texts with one tab between, got {len(cells) - 1} tabs")
        yield cells[0], cells[1]


def words_of(line: str) -> list[str]:
    """Return the words of a line, separated by spaces or tabs."""
    return _BLANKED.findall(line)


def in_line(line: str, found: list[Entity]) -> list[Entity]:
    """Set the positions of words to those in their line."""
    places = (word.span() for word in _BLANKED.finditer(line))
    return [replace(word, start=start, end=end) for word, (start, end) in zip(found, places, strict=True)]


def questions(
    arguments: list[str], file: str | None, context: str | None, context_text: str | None
) -> Iterator[dict[str, Any]]:
    """Yield questions with their contexts: one context for all, or one JSON object per line."""
    if context is not None and context_text is not None:
        raise UsageError("give either --context or --context-text, not both")
    if context == "-" and arguments == STANDARD_INPUT:
        raise UsageError("standard input cannot hold both the questions and the context: put one of them in a file")
    text = context_text if context is None else _whole(context)
    if text is None and file is None and arguments != STANDARD_INPUT:
        raise UsageError("no context: give --context FILE, --context-text TEXT, or lines of JSON with --file or -")
    return _rows(find_texts(arguments, file), file or "standard input", text)


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
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: byte {error.start} is {data[error.start]:#04x}") from None
