"""Kills a tiny run before its n-th change of the disk, resumes it and tells what is left.

A process that has run a backward pass cannot be forked, so this is a program of its own: it imports everything once
and forks a child for each run. The kill is `os._exit`: no `finally` and no `except` of the run is reached.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

KILLED = 9
CHANGES = ["train.steps=12", "train.validate_every=1", "train.save_every=2", "train.workers=0", "log.track=none"]
CHANGES += ["optim.lr=0.3", "train.patience=2", "tokenizer.vocab_size=60"]
CHANGES += ["model.set.dim=16", "model.set.ff_dim=16", "model.set.num_layers=1", "model.set.dropout=0.1"]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink")


class Killer:
    """Counts changes of the disk and ends the process before the n-th; what is being written is cut in half."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0
        self.sync = os.fsync
        os.fsync = self.synced
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str) and not path.startswith("/dev/") and flags & WRITING:
                self.count(f"open {path}")
        elif event in CHANGING:
            self.count(f"{event} {arguments[0]}")

    def synced(self, handle: int) -> None:
        self.count("fsync", handle)
        self.sync(handle)

    def count(self, what: str, handle: int | None = None) -> None:
        self.calls += 1
        if self.calls == self.at:
            sys.stdout.write(f"{what}\n")
            sys.stdout.flush()
            if handle is not None and os.path.isfile(f"/proc/self/fd/{handle}"):
                os.truncate(handle, os.fstat(handle).st_size // 2)
            os._exit(KILLED)


def forked(work: Callable[[], None]) -> int:
    """Run in a child; return its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        work()
        os._exit(0)
    except BaseException as error:
        sys.stdout.write(f"error: {error!r}\n")
        sys.stdout.flush()
        os._exit(1)


def run(folder: Path, *, resume: bool, kill: int = 0) -> None:
    import torch

    from qkv.recipes.schema import read_recipe
    from qkv.runs.run import run_recipe

    torch.set_num_threads(1)
    files = [f"data.{part}=[{folder.parent}/{part}.en,{folder.parent}/{part}.fr]" for part in ("train", "valid")]
    recipe = read_recipe("phrasebook", [*CHANGES, *files, f"out={folder}"], debug=True)
    killer = Killer(kill)
    run_recipe(recipe, resume=resume, device="cpu", say=lambda line: None)
    (folder.parent / f"{folder.name}.calls").write_text(str(killer.calls))


def left(folder: Path) -> dict[str, str]:
    """Every file and its digest; times and energy differ between any two runs."""
    files = sorted(path for path in folder.rglob("*") if not path.is_dir())
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def cut_off(run: Path, *steps: int) -> None:
    """Take a finished run that kept its checkpoints back to before some steps."""
    (run / "outcome.json").unlink()
    for step in steps:
        shutil.rmtree(run / "checkpoints" / f"step-{step}")


def write_data(root: Path) -> None:
    """Write words and their mirror images."""
    for part, numbers in (("train", range(60)), ("valid", range(60, 80))):
        texts = [f"{number:b}".replace("0", "a").replace("1", "b") for number in numbers]
        (root / f"{part}.en").write_text("".join(f"{text}\n" for text in texts))
        (root / f"{part}.fr").write_text("".join(f"{text[::-1]}\n" for text in texts))


def main(root: Path, first: int, stride: int) -> None:
    write_data(root)
    forked(lambda: run(root / "whole", resume=False))
    total = int((root / "whole.calls").read_text())
    found = {"calls": total, "whole": left(root / "whole"), "kills": {}}
    for number in range(first, total + 1, stride):
        folder = root / str(number)
        killed = forked(partial(run, folder, resume=False, kill=number))
        resumed = forked(partial(run, folder, resume=True))
        found["kills"][number] = {"killed": killed, "resumed": resumed, "left": left(folder)}
    (root / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    import qkv.runs.run  # noqa: F401  (imported once, before the forks)

    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
