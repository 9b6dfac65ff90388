"""`qkv train RECIPE --search`: train with three learning rates and keep the run that validates best.

    out/search-1x, search-0.5x, search-2x     one complete run each; a finished one has try.json
    out/search.json                           the result of each and which is best, written before anything is moved
    out/                                      the best run, moved here

Each of these steps can be repeated, so that `--resume` continues a search wherever it was interrupted.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.config import to_toml
from qkv.common.errors import QkvError, StorageError, system_errors
from qkv.predict.device import find_device
from qkv.recipes.check import check
from qkv.recipes.default_model import with_default_model
from qkv.recipes.schema import Recipe, Say, change, read_recipe
from qkv.runs.answers import with_answers
from qkv.runs.layout import RECIPE, SEARCH
from qkv.runs.own import Own
from qkv.runs.paths import absolute
from qkv.runs.report import write_report
from qkv.runs.resolve import resolve
from qkv.runs.run import run_recipe
from qkv.runs.run_folder import held, open_folder, remove_run
from qkv.runs.start import with_commit
from qkv.tasks.table import read_task
from qkv.training.loop import Outcome
from qkv.training.validation import described, rank

FACTORS = (1.0, 0.5, 2.0)  # of the recipe's learning rate; 1.0 comes first, so that it wins ties

Try = dict[str, Any]  # lr, scores and how the run ended, or lr and the error


def search(
    recipe: Recipe, *, resume: bool = False, device: str | None = None, say: Say, report: bool = True
) -> Outcome:
    """Train with each learning rate and keep the run that validates best; it gets the report."""
    recipe = with_default_model(recipe, read_task(recipe.task, recipe.objective, recipe.data), say)
    check(recipe)
    with system_errors(), held(Path(recipe.out)):
        recipe = with_commit(recipe, Path(recipe.out) / SEARCH, say)
        recipe = with_answers(recipe, resume=resume, device=find_device(device), own=Own(), say=say)
        recipe = resolve(recipe, Path(recipe.out) / SEARCH, Own(), say)
        outcome = _search(recipe, resume, device, say)
        if report and outcome.finished:
            chosen = read_recipe(str(Path(recipe.out) / RECIPE))
            task = read_task(chosen.task, chosen.objective, chosen.data).resolved(lambda _: None)
            write_report(chosen, task, outcome, device=device, say=say)
        return outcome


def _search(recipe: Recipe, resume: bool, device: str | None, say: Say) -> Outcome:
    folder = Path(recipe.out)
    new = open_folder(folder, recipe, resume, SEARCH)
    try:
        if not (folder / "search.json").is_file():
            tries: dict[str, Try] = {}
            for factor in FACTORS:
                name = f"search-{factor:g}x"
                tries[name] = found = _try(recipe, name, factor, first=not tries, device=device, say=say)
                if "failed" not in found and not Outcome(**found["outcome"]).finished:
                    return Outcome(**found["outcome"])
            _write(folder / "search.json", {"best": _best(tries), "tries": tries})
    except BaseException:
        if new and not any(folder.glob("search-*")):  # no run has started
            remove_run(folder)
        raise
    decided = json.loads((folder / "search.json").read_text("utf-8"))
    best = decided["tries"][decided["best"]]
    _promote(folder, decided["best"], change(recipe, {"optim.lr": best["lr"]}))
    say(table(decided))
    return Outcome(**best["outcome"])


def table(decided: dict[str, Any]) -> str:
    """Format the results as a table."""
    lines = []
    for name, found in decided["tries"].items():
        scores = found.get("failed") or described(_scores(found))
        lines.append(f"learning rate {found['lr']:<8g}  {scores}{'  (best)' if name == decided['best'] else ''}")
    return "\n".join(lines)


def _try(recipe: Recipe, name: str, factor: float, *, first: bool, device: str | None, say: Say) -> Try:
    """Run once, unless it is already done. Only the run with the recipe's own rate must not fail."""
    folder = Path(recipe.out) / name
    if (folder / "try.json").is_file():
        return json.loads((folder / "try.json").read_text("utf-8"))
    rate = recipe.optim.lr * factor
    cache = recipe.data.cache or str(Path(recipe.out) / "data")  # all runs share the tokenised data
    changes = {"optim.lr": rate, "out": str(folder), "data.cache": cache}
    say(f"trying learning rate {rate:g}")
    try:
        outcome = run_recipe(change(recipe, changes), resume=folder.is_dir(), device=device, say=say, report=False)
    except QkvError as error:
        if first or isinstance(error, StorageError):  # a full disk is not the fault of the learning rate
            raise
        say(f"learning rate {rate:g} failed: {error}")
        found: Try = {"lr": rate, "failed": str(error)}
    else:
        found = {"lr": rate, "scores": outcome.scores or {}, "outcome": asdict(outcome)}
        if not outcome.finished:
            return found
    folder.mkdir(exist_ok=True)
    _write(folder / "try.json", found)
    return found


def _best(tries: dict[str, Try]) -> str:
    """Choose by the first metric if there is one, then by loss. The first of equals wins."""
    sound = [name for name, found in tries.items() if "failed" not in found]
    return max(sound, key=lambda name: rank(_scores(tries[name])))


def _scores(found: Try) -> dict[str, float]:
    """Return the scores of a run; earlier versions wrote the loss and the accuracy by themselves."""
    old = {key: found[key] for key in ("accuracy", "loss") if found.get(key) is not None}
    return found.get("scores") or {"loss": float("inf")} | old


def _promote(folder: Path, name: str, recipe: Recipe) -> None:
    """Move the best run into place, its config last: without it the folder is not a model folder yet."""
    best = folder / name
    if best.is_dir():
        for entry in sorted(best.iterdir(), key=lambda entry: entry.name == "config.json"):
            if entry.name not in ("recipe.toml", "try.json"):
                os.replace(entry, folder / entry.name)
        disk.replace_file(folder / "recipe.toml", to_toml(absolute(recipe)).encode())
        disk.remove(best)
    for other in folder.glob("search-*"):
        disk.remove(other / "checkpoints")  # these runs are never resumed


def _write(file: Path, value: dict[str, Any]) -> None:
    disk.replace_file(file, json.dumps(value, indent=2).encode() + b"\n")
