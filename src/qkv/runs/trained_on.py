"""How a language model's text was cut in training: its run's recipe.toml tells, so that other text is cut alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qkv.common.config import override
from qkv.data.config import DataConfig
from qkv.exams.evaluate import task_for
from qkv.predict import Model, find
from qkv.recipes.schema import Say, read_recipe


@dataclass(frozen=True)
class Reading:
    """How files are read for a model.

    Attributes:
        data: columns, unit and windows.
        ends: whether the model learned to predict the end of a document.
    """

    data: DataConfig
    ends: bool = False


def reading_for(model: Model, folder: str, changes: Mapping[str, Any], say: Say) -> Reading:
    """Return how files are read for the model of a folder; `changes` are keys of [data] that differ.

    A language model's text is cut as recipe.toml says, in its folder or, for best/, in the run's folder.
    """
    task = task_for(model)
    if not task.reads_windows:
        return Reading(override(DataConfig(), changes))
    data, recipe = task.default_data(model), _recipe(find(folder))
    if recipe is not None:
        old = read_recipe(str(recipe)).data
        data = replace(data, unit=old.unit, text=old.text, max_length=old.max_length, short=old.short)
    data = override(data, changes)
    why = f"as in {recipe}" if recipe else "no recipe.toml beside the model; change it by --set unit=… max_length=…"
    window = min(data.short or data.max_length, data.max_length, model.config.max_length)
    say(f"data.unit is {data.unit}, windows have {window} tokens ({why})")
    return Reading(data, ends=recipe is not None)


def _recipe(folder: Path) -> Path | None:
    places = [folder, *([folder.parent] if folder.name == "best" else [])]
    return next((file for place in places if (file := place / "recipe.toml").is_file()), None)
