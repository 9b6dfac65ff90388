"""A progress bar on standard error. It is shown only on a terminal and disappears when the work is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from qkv.common.terminal import visible

T = TypeVar("T")
PAUSE = 0.1  # seconds between redraws, so that counting a million lines costs nothing


class Bar:
    """A progress bar.

    Args:
        what: the description before the bar.
        total: the total amount of work, or None if unknown.
        done: the amount that is already done.
        long: false for work that is too short for a bar.
    """

    def __init__(self, what: str, *, total: int | None = None, done: int = 0, long: bool = True) -> None:
        self.shown = long and sys.stderr.isatty()
        self.done, self._facts, self._drawn = done, "", 0.0
        self._bar = _columns() if self.shown else None
        self._task = self._bar.add_task(what, total=total, completed=done, facts="") if self._bar else None

    def __enter__(self) -> Bar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._draw()
            self._bar.stop()

    def add(self, count: int) -> None:
        """Advance by `count`."""
        self.at(self.done + count, self._facts)

    def at(self, done: int, facts: str = "") -> None:
        """Set the total amount done, and the facts to show beside the bar."""
        self.done, self._facts = done, facts
        if self._bar is not None and time.monotonic() - self._drawn > PAUSE:
            self._draw()

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items and count them."""
        for item in items:
            yield item
            self.add(1)

    def say(self, message: str) -> None:
        """Print a line above the bar."""
        # While a bar is shown, rich has replaced sys.stderr.
        sys.stderr.write(visible(message) + "\n")
        sys.stderr.flush()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, facts=self._facts)


def _columns() -> Any:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[facts]}", markup=False),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        redirect_stdout=False,  # standard output is for results
        transient=True,
    )
