"""What `qkv train` is asked to do: start a recipe, or go on with a run whose folder is given."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qkv.common.config import override
from qkv.common.errors import UsageError
from qkv.recipes.recognise import recipe_for
from qkv.recipes.schema import Recipe, Say, parse_change, read_recipe
from qkv.runs.layout import RECIPE, SEARCH, is_run, recipe_file
from qkv.runs.outcome import settled
from qkv.runs.paths import absolute, began_in
from qkv.runs.run import FINISHED, run_recipe
from qkv.runs.run_folder import check_same
from qkv.runs.search import search
from qkv.training.loop import Outcome


@dataclass(frozen=True)
class Begun:
    """A run that has begun.

    Attributes:
        recipe: its recipe, with paths that hold in any directory.
        searches: whether it tries several learning rates.
        outcome: how it ended, if it is finished.
    """

    recipe: Recipe
    searches: bool
    outcome: Outcome | None


@dataclass(frozen=True)
class Order:
    """The arguments of `qkv train`.

    Attributes:
        what: the name of a recipe, a TOML file, the folder of a run, or a first change ("key=value"), or nothing.
        changes: changes to the recipe ("key=value").
        resume: continue a run that was stopped.
        search: try several learning rates.
        debug: use the small numbers of the recipe's `[debug]` table.
    """

    what: str | None
    changes: Sequence[str] = ()
    resume: bool = False
    search: bool = False
    debug: bool = False


def carry_out(order: Order, *, device: str | None = None, say: Say) -> tuple[Recipe, Outcome]:
    """Start or resume a run; return its recipe and how it ended."""
    what, changes = order.what, order.changes
    if what and "=" in what and not os.path.exists(what):  # `qkv train --resume --set out=runs/x key=value`
        changes = [what, *changes]
        what = None
    folder = _folder(what, changes, resume=order.resume)
    if folder is None:
        recipe, searches = recipe_for(str(what), changes, debug=order.debug, say=say), order.search
    else:
        found = begun(folder, changes)
        recipe, searches = found.recipe, found.searches or order.search
        if found.outcome is not None:
            say(FINISHED.format(folder))
            return recipe, found.outcome
    return recipe, (search if searches else run_recipe)(recipe, resume=order.resume, device=device, say=say)


def begun(folder: str, changes: Sequence[str] = ()) -> Begun:
    """Return the run in a folder, with changes to its recipe ("key=value")."""
    place = Path(folder)
    file = recipe_file(place)
    if file is None:
        what = "holds no run" if place.is_dir() else "is not a folder"
        raise UsageError(f"{folder} {what}: name the folder of a run, which has a {RECIPE}, or a recipe")
    searches = file.name == SEARCH
    recipe = read_recipe(str(file))
    recipe = absolute(recipe, began_in(recipe, place))
    recipe = override(recipe, dict(map(parse_change, changes)) | {"out": folder})
    check_same(file, recipe)
    outcome = None if searches else settled(place, keep=recipe.train.keep_checkpoints)
    return Begun(recipe, searches, outcome)


def _folder(recipe: str | None, changes: Sequence[str], *, resume: bool) -> str | None:
    """Return the folder of the run that a command asks to resume, or None if it names a recipe.

    Args:
        recipe: what the command names: a recipe, the folder of a run, or nothing.
        changes: the changes of the command; `out` names a folder too.
        resume: whether the command asks to resume.
    """
    out = next((str(value) for key, value in reversed([*map(parse_change, changes)]) if key == "out"), None)
    if recipe is None and not (resume and out):
        raise UsageError("name a recipe (`qkv recipes` lists them), or the folder of a run together with --resume")
    if recipe is None:
        return out
    if is_run(recipe) and not resume:
        raise UsageError(f"{recipe} is the folder of a run: add --resume to go on with it")
    names_folder = Path(recipe).is_dir() or ("/" in recipe and not recipe.endswith(".toml"))
    return recipe if resume and names_folder else None
