"""The paths in a recipe. The recipe.toml of a run holds absolute ones, so that the run resumes from any directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from qkv.data.files import HUB
from qkv.recipes.schema import Recipe

NOT_FILES = (HUB, "phrasebook:")  # data sets of the hub and the built-in corpus begin so


def absolute(recipe: Recipe, base: Path | None = None) -> Recipe:
    """Return a recipe whose relative paths start at `base`, by default the current directory.

    The run's own folder, `out`, stays as it is. So does a model that is no folder there: a name.
    """
    start = (base or Path.cwd()).absolute()

    def place(path: str) -> str:
        return path if path.startswith(NOT_FILES) else os.path.join(start, path.removeprefix("./"))

    found = _with_paths(recipe, place)
    if not os.path.isdir(found.model.init):
        found = replace(found, model=recipe.model)
    if not os.path.isdir(found.distill.teacher):
        found = replace(found, distill=replace(found.distill, teacher=recipe.distill.teacher))
    return found


def file_names(recipe: Recipe) -> Recipe:
    """Return a recipe whose paths are only names, to compare recipes: inputs.json compares what the files hold."""
    return _with_paths(recipe, lambda path: path if path.startswith(HUB) else PurePath(path).name)


def began_in(recipe: Recipe, folder: Path) -> Path | None:
    """Return the directory in which a run began, as far as its folder and the `out` of its recipe tell.

    Earlier versions wrote paths into recipe.toml as they were given, relative to that directory.
    """
    out, whole = PurePath(recipe.out).parts, folder.resolve()
    inside = out and not PurePath(recipe.out).is_absolute() and whole.parts[-len(out) :] == out
    return whole.parents[len(out) - 1] if inside else None


def _with_paths(recipe: Recipe, place: Callable[[str], str]) -> Recipe:
    data = recipe.data
    files: dict[str, Any] = {part: tuple(map(place, getattr(data, part))) for part in ("train", "valid", "test")}
    cache = place(data.cache) if data.cache else ""
    init = place(recipe.model.init) if recipe.model.init else ""
    teacher, texts = recipe.distill.teacher, tuple(map(place, recipe.distill.texts))
    distill = replace(recipe.distill, teacher=place(teacher) if teacher else "", texts=texts)
    mix = {name: _with_patterns(table, place) for name, table in data.mix.items()}
    data = replace(data, **files, cache=cache, mix=mix)
    return replace(recipe, data=data, distill=distill, model=replace(recipe.model, init=init))


def _with_patterns(table: Any, place: Callable[[str], str]) -> Any:
    """Change the patterns of a part of a mixture that name folders; the others match names of files."""
    if not isinstance(table, dict) or "files" not in table:
        return table
    patterns = [table["files"]] if isinstance(table["files"], str) else table["files"]
    return table | {"files": [place(one) if isinstance(one, str) and "/" in one else one for one in patterns]}
