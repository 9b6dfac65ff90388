"""JSON from untrusted files."""

from __future__ import annotations

import json
from typing import Any

from qkv.data.bad_rows import BadRow
from qkv.data.limits import CONTAINERS


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
    if text.count("{") + text.count("[") > CONTAINERS:
        raise NotJson(f"not JSON that can be read: it contains more than {CONTAINERS:,} objects and arrays")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {error}", error.lineno) from None
    except ValueError as error:  # an integer of thousands of digits
        raise NotJson(f"not JSON that can be read: {error}") from None
    except RecursionError:
        raise NotJson("not JSON that can be read: it is nested too deeply") from None
