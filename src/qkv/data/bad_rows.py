"""Rows that cannot be used: stop with the place and the reason, or skip and count them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from qkv.common.errors import QkvError, unknown

Row = TypeVar("Row")
Example = TypeVar("Example")

POLICIES = ("stop", "skip")
REMEDY = "; correct it, or set data.skip_bad=true to skip such rows"


class BadRow(QkvError):
    """A row cannot be used; the message is the reason without the place."""


class BadRows:
    """Counts skipped rows and keeps the first reasons.

    Attributes:
        count: number of skipped rows.
        reasons: "file:line: reason" for the first `keep` of them.
    """

    def __init__(self, keep: int = 5) -> None:
        self.count = 0
        self.reasons: list[str] = []
        self._keep = keep

    def add(self, reason: str) -> None:
        """Count one row."""
        self.count += 1
        if len(self.reasons) < self._keep:
            self.reasons.append(reason)

    def __str__(self) -> str:
        rows = "1 row" if self.count == 1 else f"{self.count} rows"
        more = "; ..." if self.count > len(self.reasons) else ""
        return f"{rows} left out" + (f" ({'; '.join(self.reasons)}{more})" if self.count else "")


def check_policy(bad: str) -> None:
    """Raise for an unknown policy."""
    if bad not in POLICIES:
        raise unknown("policy for bad rows", bad, POLICIES)


def sift(
    rows: Iterable[tuple[str, Row | BadRow]],
    convert: Callable[[str, Row], Example],
    bad: str,
    skipped: BadRows | None,
) -> Iterator[Example]:
    """Turn rows into examples; a row that is a `BadRow`, or whose conversion raises one, is bad.

    Args:
        rows: the place ("file:line") and the row, or a `BadRow` if it could not be read.
        convert: turns a place and a row into an example.
        bad: "stop" or "skip".
        skipped: counts skipped rows, if given.
    """
    for where, row in rows:
        try:
            if isinstance(row, BadRow):
                raise row
            example = convert(where, row)
        except BadRow as error:
            if bad == "stop":
                raise QkvError(f"{where}: {error}{REMEDY}") from None
            if skipped is not None:
                skipped.add(f"{where}: {error}")
        else:
            yield example
