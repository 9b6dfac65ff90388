"""Set the values of a recipe that are "auto", by the rules of its task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import read_folder
from qkv.models import catalogue
from qkv.predict import find
from qkv.recipes.check import OPTIONAL, value_of
from qkv.recipes.schema import Recipe, Say, change, read_recipe
from qkv.runs.own import Own
from qkv.tasks.facts import measure


def resolve(recipe: Recipe, stored: Path, own: Own, say: Say) -> Recipe:
    """Return a recipe without "auto": with the values of the run that it resumes, or with those of the rules.

    Args:
        recipe: the recipe.
        stored: the recipe of the run's folder, if the run has begun.
        own: the parts that the caller provides.
        say: prints a line for the user.
    """
    if not recipe.auto:
        return recipe
    if stored.is_file():
        old = read_recipe(str(stored))
        return change(recipe, {key: value_of(old, key) for key in recipe.auto})
    if own.batches is not None:  # there are no files to measure, so these keys keep their defaults
        return replace(recipe, auto=None)
    task = own.task_for(recipe).resolved(lambda _: None)
    start = read_folder(find(recipe.model.init)) if recipe.model.init else None
    config = start.config if start else catalogue.preset(recipe.model.preset)
    found = measure(task, start.tokenizer if start else None, config, pretrained=start is not None)
    facts = replace(found, batch=recipe.train.tokens)
    usable = [key for key in recipe.auto if key in task.rules and (key not in OPTIONAL or task.allows(key))]
    values = {key: task.rules[key](facts) for key in usable}
    values = {key: value for key, value in values.items() if value is not None}  # None keeps the model's own value
    say(f"{facts}: {', '.join(f'{key}={show(value)}' for key, value in values.items())}")
    off = {key: False for key in recipe.auto if key not in usable}
    return replace(change(recipe, values | off), auto=None)


def show(value: Any) -> str:
    """Format a value as in TOML."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
