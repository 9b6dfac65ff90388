"""The output of a run: metrics.jsonl, an optional tracker, and a progress bar on standard error."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.progress import Bar
from qkv.training.trackers import LogConfig, tracker_of

Callback = Callable[[int, dict[str, float]], None]
METRICS = "metrics.jsonl"


class RunLog:
    """Appends to metrics.jsonl and logs to the tracker. When a run resumes, lines after the checkpoint are dropped."""

    def __init__(
        self, folder: Path, config: LogConfig | None = None, *, from_step: int = 0, callbacks: Sequence[Callback] = ()
    ) -> None:
        self.callbacks = callbacks
        self.file = folder / METRICS
        kept = [line for line in read_metrics(folder) if line.get("step", 0) <= from_step] if from_step else []
        self.tracker = tracker_of(config or LogConfig(), folder, from_step)
        with disk.no_space(str(self.file)):
            disk.replace_file(self.file, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def write(self, step: int, **values: float) -> None:
        """Add one line."""
        with disk.no_space(str(self.file)), self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"step": step, **values}) + "\n")
        if self.tracker is not None:
            self.tracker.write(step, values)
        for callback in self.callbacks:
            callback(step, values)

    def close(self) -> None:
        """Flush the tracker."""
        if self.tracker is not None:
            self.tracker.close()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl, without damaged lines and without a last line that a crash cut short."""
    file = folder / METRICS
    lines = file.read_bytes().split(b"\n") if file.is_file() else []
    found = [line for line in map(_parsed, lines) if line is not None]
    if damaged := sum(1 for line in lines[:-1] if _parsed(line) is None):
        warnings.warn(f"{file} is damaged: {damaged} lines cannot be read and are skipped", stacklevel=2)
    return found


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("step", 0), int) else None


class Display:
    """A progress bar on a terminal; otherwise a line from time to time."""

    def __init__(self, total: int, done: int, what: str) -> None:
        self.bar = Bar(what, total=total, done=done)
        self.total, self.last = total, time.monotonic()

    def __enter__(self) -> Display:
        self.bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.__exit__()

    def step(self, step: int, facts: str) -> None:
        """Show the progress of the run."""
        self.bar.at(step, facts)
        if not self.bar.shown and (time.monotonic() - self.last > 10 or step == self.total):
            self.last = time.monotonic()
            self.say(f"step {step}/{self.total}  {facts}")

    def say(self, message: str) -> None:
        """Print a line above the bar."""
        self.bar.say(message)
