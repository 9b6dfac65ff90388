"""What happens to a row that cannot be used: stop with its place and the reason, or count it and go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from qkv.common.errors import QkvError, unknown

Row = TypeVar("Row")
Example = TypeVar("Example")

POLICIES = ("stop", "skip")


class BadRow(QkvError):
    """One row cannot be used; the sentence is the reason without the place."""


class BadRows:
    """How many rows were left out, and why the first of them.

    Attributes:
        count: rows left out.
        reasons: "file:line: reason" of the first `keep` rows.
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
    """Stop a policy that does not exist."""
    if bad not in POLICIES:
        raise unknown("policy for bad rows", bad, POLICIES)


def sift(
    rows: Iterable[tuple[str, Row | BadRow]],
    convert: Callable[[str, Row], Example],
    bad: str,
    skipped: BadRows | None,
) -> Iterator[Example]:
    """Turn rows into examples; a row that is a `BadRow`, or whose conversion raises one, is refused.

    Args:
        rows: the place ("file:line") and the row, or why it could not be read.
        convert: place and row to example.
        bad: stop, or skip.
        skipped: where skipped rows are counted, if anybody asks.
    """
    for where, row in rows:
        try:
            if isinstance(row, BadRow):
                raise row
            example = convert(where, row)
        except BadRow as error:
            if bad == "stop":
                raise QkvError(f"{where}: {error}") from None
            if skipped is not None:
                skipped.add(f"{where}: {error}")
        else:
            yield example
