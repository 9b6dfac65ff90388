"""The one bar: on standard error, only where that is a terminal, gone when the work is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from qkv.common.terminal import visible

T = TypeVar("T")
PAUSE = 0.1  # seconds between two drawings: counting a million lines must cost nothing


class Bar:
    """Counts what is done.

    Args:
        what: said before the bar.
        total: how much there is, or None where nobody knows.
        done: how much was done before.
        long: false for work that is over before anybody reads a bar.
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
        """Count more."""
        self.at(self.done + count, self._facts)

    def at(self, done: int, facts: str = "") -> None:
        """Say how much is done in all, and what there is to say about it."""
        self.done, self._facts = done, facts
        if self._bar is not None and time.monotonic() - self._drawn > PAUSE:
            self._draw()

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Pass items on and count them."""
        for item in items:
            yield item
            self.add(1)

    def say(self, message: str) -> None:
        """Print a line above the bar."""
        # While a bar is shown, rich has put itself in the place of standard error.
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
        redirect_stdout=False,  # standard output is the answer's
        transient=True,
    )
