"""What a run says: metrics.jsonl, a tracker besides, a bar on standard error."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from qkv.common.progress import Bar
from qkv.training.trackers import LogConfig, tracker_of

Callback = Callable[[int, dict[str, float]], None]


class RunLog:
    """Appends to metrics.jsonl and tells the tracker; on resuming, lines after the checkpoint are dropped."""

    def __init__(
        self, folder: Path, config: LogConfig | None = None, *, from_step: int = 0, callbacks: Sequence[Callback] = ()
    ) -> None:
        self.callbacks = callbacks
        self.tracker = tracker_of(config or LogConfig(), folder, from_step)
        self.file = folder / "metrics.jsonl"
        kept = [line for line in self._lines() if line.get("step", 0) <= from_step] if from_step else []
        self.file.write_text("".join(json.dumps(line) + "\n" for line in kept), "utf-8")

    def write(self, step: int, **values: float) -> None:
        """Add one line."""
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"step": step, **values}) + "\n")
        if self.tracker is not None:
            self.tracker.write(step, values)
        for callback in self.callbacks:
            callback(step, values)

    def close(self) -> None:
        """Flush the tracker."""
        if self.tracker is not None:
            self.tracker.close()

    def _lines(self) -> list[dict[str, Any]]:
        if not self.file.is_file():
            return []
        found = []
        for line in self.file.read_text("utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # a line cut short by a crash
                break
        return found


class Display:
    """A bar on a terminal; elsewhere a line now and then."""

    def __init__(self, total: int, done: int, what: str) -> None:
        self.bar = Bar(what, total=total, done=done)
        self.total, self.last = total, time.monotonic()

    def __enter__(self) -> Display:
        self.bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.__exit__()

    def step(self, step: int, facts: str) -> None:
        """Show where the run stands."""
        self.bar.at(step, facts)
        if not self.bar.shown and (time.monotonic() - self.last > 10 or step == self.total):
            self.last = time.monotonic()
            self.say(f"step {step}/{self.total}  {facts}")

    def say(self, message: str) -> None:
        """Print a line above the bar."""
        self.bar.say(message)
