"""How a run ended, in outcome.json. A finished run keeps its model, and drops what only `--resume` needs.

    train ─► model folder ─► outcome.json ─► checkpoints/ removed

A run that is killed before outcome.json is written resumes from its last checkpoint and ends with the same weights. One
that is killed later is finished, and the next `--resume` removes what is left of its checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from qkv.checkpoints.weights import WHOLE
from qkv.common import disk
from qkv.common.errors import QkvError, StorageError
from qkv.runs.layout import FAILED, OUTCOME, read_table
from qkv.training.loop import Outcome


@contextmanager
def attempt(folder: Path) -> Iterator[None]:
    """Forget how the run ended before, and write down why it fails if it does."""
    disk.remove(folder / OUTCOME)
    try:
        yield
    except QkvError as error:
        if not isinstance(error, StorageError):  # there may be no space for one more file
            _write(folder, {"reason": FAILED, "error": str(error), "finished": False})
        raise


def close_run(folder: Path, outcome: Outcome, *, keep: bool) -> None:
    """Write how a run ended. A finished one loses its checkpoints unless `keep` is set."""
    _write(folder, asdict(outcome) | {"finished": outcome.finished})
    if outcome.finished and not keep:
        disk.remove(folder / "checkpoints")


def settled(folder: Path, *, keep: bool) -> Outcome | None:
    """Return how a run ended if it is finished, and remove the checkpoints that a kill left there."""
    if (outcome := finished(folder)) is not None and not keep:
        disk.remove(folder / "checkpoints")
    return outcome


def finished(folder: Path) -> Outcome | None:
    """Return how a finished run ended, or None if there is something left to do."""
    found = read_table(folder / OUTCOME)
    names = {field.name for field in fields(Outcome)} & found.keys()
    needed = {field.name for field in fields(Outcome) if field.default is MISSING}
    if not needed <= names or not (folder / WHOLE).is_file():
        return None
    outcome = Outcome(**{name: found[name] for name in names})
    return outcome if outcome.finished else None


def _write(folder: Path, value: dict[str, Any]) -> None:
    disk.replace_file(folder / OUTCOME, json.dumps(value, indent=2).encode() + b"\n")
