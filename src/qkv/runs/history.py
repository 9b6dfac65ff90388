"""`qkv runs`: the runs in a folder and what became of each, from the files that they left."""

from __future__ import annotations

import os
import time
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qkv.common.errors import UsageError
from qkv.recipes.shelf import flat
from qkv.runs.layout import ENERGY, FAILED, OUTCOME, RECIPE, SCORES, SEARCH, is_run, is_running, read_table
from qkv.training.logging import METRICS, read_metrics

VALID = "valid_"


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run in a list.

    Attributes:
        folder: its folder.
        task: what it learns.
        model: the preset or the folder that it starts from.
        state: finished, running, stopped or failed.
        why: why it failed; empty otherwise.
        steps: optimizer steps so far.
        best: the validation values where the loss was lowest, by name.
        test: the scores in scores.json, by name.
        seconds: how long it trained, if it says so.
        kwh: the energy it used, if it says so.
        date: when it was last written to, as YYYY-MM-DD HH:MM.
    """

    folder: str
    task: str
    model: str
    state: str
    why: str
    steps: int
    best: dict[str, float]
    test: dict[str, float]
    seconds: float | None
    kwh: float | None
    date: str

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        return asdict(self)


def find_runs(folders: Sequence[str]) -> list[Path]:
    """Return the runs among some folders and below them, each once."""
    found: dict[Path, None] = {}
    for name in folders:
        if not os.path.isdir(name):
            raise UsageError(f"{name} is not a folder: name a run, or a folder with runs in it")
        below = list(_below(Path(name)))
        if not below:
            raise UsageError(f"{name} holds no run: a run has a recipe.toml")
        found |= dict.fromkeys(below)
    return list(found)


def _below(folder: Path) -> Iterator[Path]:
    """Yield a folder that is a run, or the runs below it; what is inside a run belongs to it."""
    for place, inside, _ in os.walk(folder):
        inside.sort()
        if is_run(place):
            inside.clear()
            yield Path(place)


def summary_of(folder: Path) -> RunSummary:
    """Tell what became of a run."""
    settings, measured, outcome = settings_of(folder), metrics_of(folder), read_table(folder / OUTCOME)
    energy, model = read_table(folder / ENERGY), settings.get("model.init") or settings.get("model.preset", "")
    state = _state(folder, outcome)
    files = [file for name in (OUTCOME, METRICS) if (file := folder / name).is_file()] or [folder]
    return RunSummary(
        folder=str(folder),
        task=str(settings.get("task", "")),
        model=Path(model).name if settings.get("model.init") else str(model),
        state=state,
        why=str(outcome.get("error", "")) if state == FAILED else "",
        steps=_steps(folder, outcome, measured),
        best=_best(measured, outcome.get("weights_of")),
        test=_test(folder),
        seconds=energy.get("seconds"),
        kwh=energy.get("kwh"),
        date=time.strftime("%Y-%m-%d %H:%M", time.localtime(max(file.stat().st_mtime for file in files))),
    )


def settings_of(folder: Path) -> dict[str, Any]:
    """Return the recipe of a run by dotted keys, without the folder that it writes to."""
    file = folder / RECIPE
    if not file.is_file():
        file = folder / SEARCH  # of a search whose best run is not known yet
    try:
        raw = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    return {key: value for key, value in flat(raw) if key != "out"}


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl; the last one of a run that still writes may be cut short."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_metrics(folder)


def _state(folder: Path, outcome: dict[str, Any]) -> str:
    if is_running(folder):
        return "running"
    if outcome.get("reason") == FAILED:
        return FAILED
    # Earlier versions wrote no outcome; they wrote the model into the folder when a run was finished.
    whole = (folder / "model.safetensors").is_file()
    return "finished" if outcome.get("finished", whole) else "stopped"


def _steps(folder: Path, outcome: dict[str, Any], measured: Sequence[dict[str, Any]]) -> int:
    """Return the number of steps: that of the outcome, or of the newest checkpoint or line."""
    if isinstance(outcome.get("step"), int):
        return int(outcome["step"])
    names = [path.name.removeprefix("step-") for path in (folder / "checkpoints").glob("step-*")]
    logged = [line["step"] for line in measured if isinstance(line.get("step"), int)]
    return max([*(int(name) for name in names if name.isdecimal()), *logged], default=0)


def _best(measured: Sequence[dict[str, Any]], weights_of: int | None) -> dict[str, float]:
    """Return the validation values of the weights that the folder holds or, in an unfinished run, the best so far."""
    lines = [line for line in measured if isinstance(line.get("valid_loss"), float)]
    if not lines:
        return {}
    kept = [line for line in lines if line.get("step") == weights_of]
    line = min(kept or lines, key=lambda one: one["valid_loss"])
    found: dict[str, float] = {}
    parts = {key.partition(".")[0] for key in line if "." in key} | {"valid_loss"}  # of the loss
    plain = any(key.startswith(VALID) and "." not in key and key not in parts for key in line)
    for key, value in line.items():
        if plain and "." in key:  # sums of the loss; the task has metrics of its own
            continue
        if key.startswith(VALID) and isinstance(value, float) and value not in found.values():
            found[key.removeprefix(VALID)] = value
    return found


def _test(folder: Path) -> dict[str, float]:
    table = read_table(folder / SCORES)
    scores = table.get("scores")
    if table.get("data", "test") != "test" or not isinstance(scores, dict):
        return {}
    values = {name: one.get("value") for name, one in scores.items() if isinstance(one, dict)}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}
