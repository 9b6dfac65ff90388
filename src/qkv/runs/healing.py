"""A short fine-tuning run for a model that has lost some of its parts: the recipe it was trained with, but shorter.

The recipe is that of the model's own run, or else the one that fits the files (`qkv train FILE`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from qkv.common.errors import QkvError, UsageError
from qkv.predict import find
from qkv.recipes.recognise import recipe_of
from qkv.recipes.schema import ModelSection, Recipe, Say, change, read_recipe
from qkv.runs.layout import RECIPE
from qkv.runs.own import Own
from qkv.runs.resolve import resolve
from qkv.runs.run import run_recipe
from qkv.runs.trained_on import beside
from qkv.training.loop import Outcome

SHARE = 0.25  # of the steps or epochs of training,
RATE = 0.5  # and of its learning rate


def own_recipe(folder: str) -> Recipe | None:
    """Return the recipe of the run that a model came from, or None if its folder is no run."""
    file = beside(find(folder), RECIPE)
    return read_recipe(str(file)) if file is not None else None


def training_files(folder: str, changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files that a model is trained further on: those in `changes`, or those of its run."""
    if given := changes.get("data.train"):
        return (given,) if isinstance(given, str) else tuple(map(str, given))
    recipe = own_recipe(folder)
    return () if recipe is None else recipe.data.train


def healing(folder: str, start: Path, out: Path, changes: Mapping[str, Any], say: Say) -> Recipe:
    """Return the recipe of a short run.

    Args:
        folder: the model as it was.
        start: the folder with what is left of it.
        out: the run's folder.
        changes: keys of the recipe to change.
        say: prints a line for the user.
    """
    files = training_files(folder, changes)
    if not files:
        raise UsageError(f"{folder} is not a run, so its training files are not known: give --set data.train=FILE")
    data = {key: value for key, value in changes.items() if key.startswith("data.")} | {"data.train": files}
    asked = own_recipe(folder)
    found = change(asked, data) if asked is not None else recipe_of(files, data, say=say)
    model = ModelSection(init=str(start.absolute()))
    found = replace(found, model=model, out=str(out), auto=_without_model(found.auto))
    found = change(found, {"data.test": [], "train.average_last": 0})
    return change(_shorter(resolve(found, Path(), Own(), say)), changes)


def _without_model(auto: Sequence[str] | None) -> tuple[str, ...] | None:
    """Leave out what a model that is there already does not need: its sizes and its tokenizer."""
    return tuple(key for key in auto or () if not key.startswith(("model.", "tokenizer."))) or None


def _shorter(recipe: Recipe) -> Recipe:
    """Return a recipe with a share of its steps or epochs, and of its learning rate."""
    train = recipe.train
    length = (
        {"train.steps": max(1, round(SHARE * train.steps))} if train.steps else {"train.epochs": SHARE * train.epochs}
    )
    return change(recipe, {**length, "optim.lr": RATE * recipe.optim.lr})


def heal(recipe: Recipe, *, device: str | None, say: Say) -> Outcome:
    """Run the recipe, or continue it where it was stopped."""
    resume = (Path(recipe.out) / RECIPE).is_file()
    outcome = run_recipe(recipe, resume=resume, device=device, say=say)
    if not outcome.finished:
        raise QkvError(f"stopped by {outcome.reason} after {outcome.step} steps: run the same command again to go on")
    return outcome
