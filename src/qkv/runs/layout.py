"""The names of the files in a run's folder, and what can be told from them without importing torch."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.errors import StorageError

LOCK = ".lock"
RECIPE = "recipe.toml"
SEARCH = "search.toml"
SHRINK = "shrink.toml"
OUTCOME = "outcome.json"
ENERGY = "energy.json"
SCORES = "scores.json"
FAILED = "failed"
TEACHER = "teacher"  # the folder with the answers of a teacher


def is_run(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a run."""
    return recipe_file(Path(folder)) is not None


def recipe_file(folder: Path) -> Path | None:
    """Return the recipe of the run in a folder; that of a search decides what its runs are."""
    return next((file for name in (SEARCH, RECIPE) if (file := folder / name).is_file()), None)


def is_running(folder: Path) -> bool:
    """Whether a process trains in a folder now. The system releases its lock when the process ends."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # some network file systems do not support locks
        return False
    finally:
        os.close(handle)
    return False


def read_table(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file that a run may not have written; empty if it is missing or damaged."""
    try:
        return disk.read_object(file)
    except StorageError:
        return {}
