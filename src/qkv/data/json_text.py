"""JSON from untrusted files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from qkv.data.bad_rows import BadRow
from qkv.data.limits import CONTAINERS

_SPACE = re.compile(r"[ \t\r\n]*+")


class NotJson(BadRow):
    """A text cannot be read as JSON; the message is the reason without the place.

    Attributes:
        line: the line of the problem, from 1.
    """

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def parse(text: str) -> Any:
    """Parse JSON; raise `NotJson` also if it is nested too deeply or needs far more memory than its text."""
    _check_size(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _problem(error) from None


def parse_list(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the line and the value of each item of a JSON list; raise `NotJson` at the first that cannot be read."""
    _check_size(text)
    decoder = json.JSONDecoder()
    place, line, counted = text.index("[") + 1, 1, 0
    while True:
        place = _after_space(text, place)
        line += text.count("\n", counted, place)
        counted = place
        if text.startswith("]", place):
            if _after_space(text, place + 1) < len(text):
                raise NotJson("not JSON: there is more text after the list", line)
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            raise _problem(error) from None
        yield line, value
        place = _after_space(text, place)
        if not text.startswith((",", "]"), place):
            raise NotJson("not JSON: a comma or ] is missing after this item of the list", line)
        place += text.startswith(",", place)


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _check_size(text: str) -> None:
    if text.count("{") + text.count("[") > CONTAINERS:
        raise NotJson(f"not JSON that can be read: it contains more than {CONTAINERS:,} objects and arrays")


def _problem(error: Exception) -> NotJson:
    if isinstance(error, json.JSONDecodeError):
        return NotJson(f"not JSON: {error}", error.lineno)
    if isinstance(error, RecursionError):
        return NotJson("not JSON that can be read: it is nested too deeply")
    return NotJson(f"not JSON that can be read: {error}")  # an integer of thousands of digits
