"""How a model's files were read in training, so that other files are read the same way.

A run keeps the columns that it used, given or detected, in reading.json; older runs have them in recipe.toml only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.config import override
from qkv.data.config import DataConfig
from qkv.data.files import expand
from qkv.data.tables import as_column, find_format, open_table
from qkv.exams.evaluate import task_for
from qkv.predict import Model, find
from qkv.recipes.schema import Recipe, Say, read_recipe
from qkv.runs.layout import RECIPE
from qkv.tasks.base import Task
from qkv.tasks.split import named_parts
from qkv.tasks.table import TASKS, find_task

READING = "reading.json"
TABLE = "reading"
PARTS = "parts"
COLUMNS = ("text", "second", "label")
KEPT = (*COLUMNS, "separator", "format")  # not the encoding: each file has its own


@dataclass(frozen=True)
class Reading:
    """How to read files for a model.

    Attributes:
        data: columns, unit and windows.
        ends: whether the model was trained to predict the end of a document.
        task: the task that scores the model if its heads do not tell: that of its run, for prompts and answers.
    """

    data: DataConfig
    ends: bool = False
    task: type[Task] | None = None


def keep_reading(folder: Path, task: Task) -> None:
    """Write how the files of a run are read into its folder; for a mixture, those of each part."""
    found: dict[str, Any] = {key: getattr(task.data, key) for key in KEPT}
    if (parts := named_parts(task)) is not None:
        found[PARTS] = {name: {key: getattr(part.data, key) for key in KEPT} for name, part in parts.items()}
    with disk.no_space(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        disk.replace_file(folder / READING, disk.table_bytes(TABLE, found))


def trained_columns(folder: str, part: str | None = None) -> dict[str, str]:
    """Return the keys of [data] that say how a model's training files were read; none if that is not known.

    Args:
        folder: the model's folder.
        part: of a mixture, the part that the files are for.
    """
    if kept := beside(find(folder), READING):
        table = disk.read_table(kept, TABLE)
        return {key: str(value) for key, value in table.get(PARTS, {}).get(part, table).items() if key in KEPT}
    own = own_recipe(folder)
    return {} if own is None else {key: getattr(own.data, key) for key in KEPT}


def fitting(known: Mapping[str, str], files: Sequence[str], say: Say) -> dict[str, str]:
    """Return the columns of training, or none if the first of these files does not have them."""
    path = expand(list(files))[0] if files else ""
    if not path or find_format(path) is None:
        return dict(known)
    table = open_table(path)
    columns = [as_column(known[key]) for key in COLUMNS if known.get(key)]
    for column in columns:
        if column not in table.names and not (isinstance(column, int) and column < len(table.names)):
            say(f"{path} has no column {column!r} as in training: its columns are detected")
            return {key: value for key, value in known.items() if key not in COLUMNS}
    return dict(known)


def reading_for(
    model: Model,
    folder: str,
    changes: Mapping[str, Any],
    say: Say,
    files: Sequence[str] = (),
    *,
    task: type[Task] | None = None,
    part: str | None = None,
    whole: bool = False,
) -> Reading:
    """Return how to read files for the model in a folder.

    Columns are those of training if the files have them. The text of a language model is split as in recipe.toml.

    Args:
        model: the model.
        folder: its folder; for best/, the run's folder is searched too.
        changes: keys of [data] to change, with or without "data.".
        say: prints a line for the user.
        files: the files to read.
        task: the task that reads them; None for the one that scores the model.
        part: of a model with several text-to-text tasks, the one that the files are for.
        whole: whether a file is one document, for a language model without a recipe.
    """
    own = None if whole or task is not None else _own_task(model, folder)
    task, changes = task or task_for(model), {key.removeprefix("data."): value for key, value in changes.items()}
    if not (own or task).reads_windows:
        known = {key: value for key, value in trained_columns(folder, part).items() if key not in changes}
        return Reading(override(DataConfig(), {**fitting(known, files, say), **changes}, where="data."), task=own)
    data, recipe = task.default_data(model), beside(find(folder), RECIPE)
    if whole:
        data = replace(data, unit="file")
    why = "no recipe.toml next to the model; change it with --set data.unit=…"
    asked = None if recipe is None else read_recipe(str(recipe))
    if asked is not None and find_task(asked.task).reads_windows:
        old, why = asked.data, f"as in {recipe}"
        data = replace(data, unit=old.unit, text=old.text, max_length=old.max_length, short=old.short)
    data = override(data, changes, where="data.")
    window = min(data.short or data.max_length, data.max_length, model.config.max_length)
    say(f"data.unit is {data.unit}, windows have {window} tokens ({why})")
    return Reading(data, ends=recipe is not None)


def _own_task(model: Model, folder: str) -> type[Task] | None:
    """Return the task of the run, if it can score the model and another task would."""
    recipe = own_recipe(folder)
    found = None if recipe is None else TASKS.get(recipe.task)
    return found if found not in (None, task_for(model)) and found.can_score(model) else None


def own_recipe(folder: str) -> Recipe | None:
    """Return the recipe of the run that a model came from, or None if its folder is no run."""
    file = beside(find(folder), RECIPE)
    return None if file is None else read_recipe(str(file))


def beside(folder: Path, name: str) -> Path | None:
    """Return a file of the run that a model folder belongs to: that of best/ is the folder above."""
    places = [folder, *([folder.parent] if folder.name == "best" else [])]
    return next((file for place in places if (file := place / name).is_file()), None)
