"""A short fine-tuning run for a model that has lost some of its parts: the recipe it was trained with, but shorter.

The recipe is that of the model's own run, or else the one that fits the files (`qkv train FILE`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from qkv.common.errors import UsageError
from qkv.recipes.recognise import recipe_of
from qkv.recipes.schema import Recipe, Say, change
from qkv.runs.own import Own
from qkv.runs.resolve import resolve
from qkv.runs.student import starting_from
from qkv.runs.trained_on import own_recipe

SHARE = 0.25  # of the steps or epochs of training,
RATE = 0.5  # and of its learning rate


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
    found = replace(starting_from(found, str(start.absolute())), out=str(out))
    found = change(found, {"data.test": [], "train.average_last": 0})
    return change(_shorter(resolve(found, Path(), Own(), say)), changes)


def _shorter(recipe: Recipe) -> Recipe:
    """Return a recipe with a share of its steps or epochs, and of its learning rate."""
    train = recipe.train
    length = (
        {"train.steps": max(1, round(SHARE * train.steps))} if train.steps else {"train.epochs": SHARE * train.epochs}
    )
    return change(recipe, {**length, "optim.lr": RATE * recipe.optim.lr})
