"""How a language model's text was split in training, from recipe.toml, so that other text is split the same way."""

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
    """How to read files for a model.

    Attributes:
        data: columns, unit and windows.
        ends: whether the model was trained to predict the end of a document.
    """

    data: DataConfig
    ends: bool = False


def reading_for(model: Model, folder: str, changes: Mapping[str, Any], say: Say) -> Reading:
    """Return how to read files for the model in a folder; `changes` are keys of [data] to change.

    The text of a language model is split as in recipe.toml of its folder or, for best/, of the run's folder.
    """
    task = task_for(model)
    if not task.reads_windows:
        return Reading(override(DataConfig(), changes))
    data, recipe = task.default_data(model), _recipe(find(folder))
    if recipe is not None:
        old = read_recipe(str(recipe)).data
        data = replace(data, unit=old.unit, text=old.text, max_length=old.max_length, short=old.short)
    data = override(data, changes)
    why = f"as in {recipe}" if recipe else "no recipe.toml next to the model; change it with --set unit=… max_length=…"
    window = min(data.short or data.max_length, data.max_length, model.config.max_length)
    say(f"data.unit is {data.unit}, windows have {window} tokens ({why})")
    return Reading(data, ends=recipe is not None)


def _recipe(folder: Path) -> Path | None:
    places = [folder, *([folder.parent] if folder.name == "best" else [])]
    return next((file for place in places if (file := place / "recipe.toml").is_file()), None)
