"""What a run says: metrics.jsonl, TensorBoard events where it is installed, a bar on standard error."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class RunLog:
    """Appends to metrics.jsonl and tells the trackers; on resuming, lines after the checkpoint are dropped."""

    def __init__(self, folder: Path, *, from_step: int = 0) -> None:
        self.file = folder / "metrics.jsonl"
        kept = [line for line in self._lines() if line.get("step", 0) <= from_step] if from_step else []
        self.file.write_text("".join(json.dumps(line) + "\n" for line in kept), "utf-8")
        self.board = _tensorboard(folder, from_step)

    def write(self, step: int, **values: float) -> None:
        """Add one line."""
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"step": step, **values}) + "\n")
        for name, value in values.items():
            if self.board is not None:
                self.board.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush the trackers."""
        if self.board is not None:
            self.board.close()

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
        self.console = Console(stderr=True)
        self.total, self.live, self.last = total, sys.stderr.isatty(), time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.live,
        )
        self.task = self.bar.add_task(what, total=total, completed=done, facts="")

    def __enter__(self) -> Display:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def step(self, step: int, facts: str) -> None:
        """Show where the run stands."""
        self.bar.update(self.task, completed=step, facts=facts)
        if not self.live and (time.monotonic() - self.last > 10 or step == self.total):
            self.last = time.monotonic()
            self.say(f"step {step}/{self.total}  {facts}")

    def say(self, message: str) -> None:
        """Print a line above the bar."""
        self.console.print(message, highlight=False, markup=False, soft_wrap=True)


def _tensorboard(folder: Path, from_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=from_step + 1 if from_step else None)
