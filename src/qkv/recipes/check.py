"""Check a recipe for errors before anything slow starts."""

from __future__ import annotations

import os
from typing import Any

from qkv.checkpoints import hub
from qkv.checkpoints.folder import DTYPES
from qkv.common.errors import UsageError, unknown
from qkv.data.files import expand, stored_file
from qkv.data.hub import is_hub
from qkv.models import catalogue
from qkv.predict.loading import built_in
from qkv.recipes.schema import INIT, Recipe
from qkv.tasks.base import Task
from qkv.tasks.table import TASKS, read_task
from qkv.tokenizers.kinds import KINDS
from qkv.training.optim import OPTIMIZERS
from qkv.training.precision import PRECISIONS
from qkv.training.run import COMPILES
from qkv.training.schedule import SCHEDULES
from qkv.training.trackers import check_tracker

LEAST = {  # minimum values
    "optim.lr": 0.0,
    "optim.clip": 0.0,
    "optim.warmup": 0.0,
    "optim.layer_decay": 0.01,
    "train.steps": 0,
    "train.epochs": 0.0,
    "train.tokens": 1,
    "train.accumulate": 1,
    "train.workers": 0,
    "train.ema": 0.0,
    "train.average_last": 0,
    "train.log_every": 1,
    "train.keep": 1,
    "data.max_length": 1,
    "data.short": 0,
    "data.held_out": 0.0,
}
OPTIONAL = {  # keys that only some tasks support; each task lists its own in `optional_keys`
    "data.separator": "several labels per example",
    "data.dropout": "tasks that support BPE-dropout",
    "data.short": "packed windows",
    "train.balance": "one class per example",
    "train.match_rates": "one class per example",
}
MOST = {"optim.layer_decay": 1.0, "data.held_out": 1.0}  # maximum values


def check(recipe: Recipe, *, task: Task | None = None, reads_data: bool = True) -> None:
    """Raise an error for a recipe that cannot run, before anything slow starts.

    Args:
        recipe: the recipe to check.
        task: the caller's own task instead of the recipe's.
        reads_data: False if the caller provides its own batches.
    """
    task = task or read_task(recipe.task, recipe.objective, recipe.data)
    if bool(recipe.model.preset) == bool(recipe.model.init):
        raise UsageError("set exactly one of model.preset and model.init")
    if recipe.model.preset and recipe.model.preset not in catalogue.PRESETS:
        raise unknown("preset", recipe.model.preset, catalogue.PRESETS)
    if is_hub(recipe.model.init):
        hub.parse(recipe.model.init)
    else:
        _must_be_model("model.init", recipe.model.init)
    _check_distill(recipe, task)
    if reads_data and not recipe.data.train and not recipe.distill.texts:
        raise UsageError("data.train is empty: set it with --set data.train=FILE")
    if not reads_data and not recipe.train.steps:
        raise UsageError("your own batches have no epochs: set train.steps")
    for paths in (recipe.data.train, recipe.data.valid, recipe.data.test, recipe.distill.texts):
        for path in paths:
            if not path.startswith(("phrasebook:", "hf:")):
                _must_exist(path)
    _check_options(recipe, task)
    for key, name, allowed in (
        ("optim.name", recipe.optim.name, OPTIMIZERS),
        ("optim.schedule", recipe.optim.schedule, SCHEDULES),
        ("train.precision", recipe.train.precision, PRECISIONS),
        ("train.compile", recipe.train.compile, COMPILES),
        ("tokenizer.kind", recipe.tokenizer.kind, KINDS),
        ("model.dtype", recipe.model.dtype, (*DTYPES, INIT)),
    ):
        if name not in allowed:
            raise unknown(key, name, allowed)
    for key, least in LEAST.items():
        if (value := value_of(recipe, key)) < least:
            raise UsageError(f"{key} must be at least {least:g}, got {value:g}")
    for key, most in MOST.items():
        if (value := value_of(recipe, key)) > most:
            raise UsageError(f"{key} must be at most {most:g}, got {value:g}")
    for key in recipe.auto or ():
        if key not in task.rules and key not in OPTIONAL:
            have = f"only {', '.join(sorted(task.rules))}" if task.rules else "no key"
            raise UsageError(f"{key} cannot be auto: {have} can be for the task {recipe.task}")
    task.objective()
    check_tracker(recipe.log)


def _check_distill(recipe: Recipe, task: Task) -> None:
    """Raise an error for keys of [distill] that do not go together."""
    asked = recipe.distill
    if is_hub(asked.teacher):
        hub.parse(asked.teacher)
    else:
        _must_be_model("distill.teacher", asked.teacher)
    needs = {"hidden": asked.hidden, "attention": asked.attention, "answers": asked.answers, "texts": asked.texts}
    if not asked.teacher and (key := next((key for key, value in needs.items() if value), "")):
        raise UsageError(f"distill.{key} needs a teacher: set distill.teacher=FOLDER")
    written = next((key for key in ("answers", "texts") if needs[key]), "")
    if written and not task.answerable:
        able = ", ".join(name for name, other in TASKS.items() if other.answerable)
        raise UsageError(f"distill.{written}: a teacher can write answers for {able}, not for {recipe.task}")
    if asked.answers and not recipe.data.train:
        raise UsageError("distill.answers is for training files: set data.train, or leave it out with distill.texts")
    if (asked.layers or asked.decoder_layers) and not recipe.model.init:
        raise UsageError("distill.layers are those of model.init: set it, or leave the layers out")
    if asked.teacher and recipe.train.compile == "yes":
        raise UsageError("train.compile = yes is not for a run with a teacher: use auto, record or no")


def _must_be_model(key: str, name: str) -> None:
    if name and not os.path.isdir(name) and name not in built_in():
        raise UsageError(f"{key}: {name} is not a folder{hub.hint(name)}")


def options_of(recipe: Recipe) -> frozenset[str]:
    """Return the optional keys that a recipe sets."""
    return frozenset(key for key in OPTIONAL if value_of(recipe, key))


def _check_options(recipe: Recipe, task: Task) -> None:
    """Raise an error for a key that this task does not support, and name the tasks that do."""
    for key in sorted(options_of(recipe)):
        if not task.allows(key):
            able = ", ".join(name for name, other in TASKS.items() if key in other.optional_keys)
            why = " with these settings" if key in task.optional_keys else ""
            raise UsageError(f"{key} is for {OPTIONAL[key]} ({able}), not for {recipe.task}{why}: leave it out")


def _must_exist(path: str) -> None:
    for found in expand([path]):
        if not os.path.exists(stored_file(found)):
            raise UsageError(f"there is no file {found}")


def value_of(recipe: Recipe, key: str) -> Any:
    """Return the value of a dotted key."""
    found: Any = recipe
    for part in key.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return found
