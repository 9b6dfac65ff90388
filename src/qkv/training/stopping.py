"""Stopping by signal: after the first signal the run saves and stops; a second Ctrl-C stops it at once."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Records a signal to stop the run; the handlers are installed inside the `with` block."""

    def __init__(self) -> None:
        self.signal: str | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        for number in SIGNALS:
            try:
                self._before[number] = signal.signal(number, self._hear)
            except ValueError:  # only the main thread can install signal handlers
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number).name
