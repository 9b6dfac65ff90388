"""A run's folder: a new one, or one to resume whose recipe gives the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.config import override, to_toml
from qkv.common.errors import UsageError
from qkv.recipes.schema import Recipe, read_recipe
from qkv.training.trackers import LogConfig

# What may change when a run goes on; a recipe is compared with these values in it.
FREE: dict[str, Any] = {
    "out": "",
    "log": LogConfig(),
    "data.cache": "",
    "train.workers": 1,
    "train.keep": 1,
    "train.log_every": 1,
    "train.carbon_intensity": 0.0,
}


def claim(folder: Path, recipe: Recipe, resume: bool, name: str = "recipe.toml") -> bool:
    """Take a run's folder: a new one (true), or one to resume whose recipe, kept by `name`, gives the same numbers."""
    file = folder / name
    new = not file.is_file()
    if not new and not resume:
        raise UsageError(f"{folder} holds a run already: go on with --resume, or choose another place with --set out=…")
    if folder.exists() and any(folder.iterdir()) and new:
        raise UsageError(f"{folder} is not empty and holds no run: choose another place with --set out=…")
    folder.mkdir(parents=True, exist_ok=True)
    if not new and (old := _deciding(read_recipe(str(file)))) != (now := _deciding(recipe)):
        changed = _first_difference(old, now)
        raise UsageError(f"{file} is another recipe ({changed}): resume with the recipe the run began with")
    disk.replace_file(file, to_toml(recipe).encode())
    return new


def _deciding(recipe: Recipe) -> str:
    """Write down what decides a run's numbers: all but where things lie, who prepares them and what is shown."""
    return to_toml(override(recipe, FREE))


def _first_difference(old: str, new: str) -> str:
    for a, b in zip(old.splitlines(), new.splitlines(), strict=False):
        if a != b:
            return f"it has {a!r}, now {b!r}"
    return "one is longer"
