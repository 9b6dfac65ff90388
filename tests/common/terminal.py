"""A terminal in the place of standard error."""

from __future__ import annotations

import io
import os
import pty
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


class Screen:
    """What a terminal was told, and what standard output got meanwhile."""

    seen = answer = ""


@contextmanager
def terminal() -> Iterator[Screen]:
    """Make standard error a terminal for a while; within a test, since pytest sets it anew for each phase."""
    ours, theirs = pty.openpty()
    screen, parts = Screen(), list[bytes]()
    answer = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    reader = threading.Thread(target=_drain, args=(ours, parts), daemon=True)
    reader.start()
    try:
        with os.fdopen(theirs, "w") as stream, redirect_stderr(stream), redirect_stdout(answer):
            yield screen
    finally:
        reader.join(10)
        os.close(ours)
        screen.seen, screen.answer = b"".join(parts).decode(errors="replace"), answer.buffer.getvalue().decode()  # type: ignore[attr-defined]


def _drain(ours: int, parts: list[bytes]) -> None:
    """Read until the other side is closed: a terminal that nobody reads stops who writes to it."""
    while True:
        try:
            parts.append(os.read(ours, 1 << 16))
        except OSError:
            return
