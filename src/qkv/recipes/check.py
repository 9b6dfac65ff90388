"""Everything that makes a recipe impossible, found before anything heavy starts."""

from __future__ import annotations

import os

from qkv.common.errors import UsageError, unknown
from qkv.data.files import expand, stored_file
from qkv.models import catalogue
from qkv.recipes.schema import Recipe
from qkv.tasks.sentences import paired
from qkv.tasks.table import TASKS
from qkv.tokenizers.kinds import KINDS
from qkv.training.optim import OPTIMIZERS
from qkv.training.precision import PRECISIONS
from qkv.training.run import COMPILES
from qkv.training.schedule import SCHEDULES
from qkv.training.trackers import check_tracker

LEAST = {  # numbers of a recipe that cannot be smaller
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
WINDOWED = ("masked", "replaced", "causal", "spans", "denoise")  # tasks that read packed windows
MOST = {"optim.layer_decay": 1.0, "data.held_out": 1.0}  # numbers that cannot be larger


def check(recipe: Recipe) -> None:
    """Stop a recipe that cannot work, before anything heavy starts."""
    if recipe.task not in TASKS:
        raise unknown("task", recipe.task, TASKS)
    if bool(recipe.model.preset) == bool(recipe.model.init):
        raise UsageError("a recipe names either model.preset or model.init, one of the two")
    if recipe.model.preset and recipe.model.preset not in catalogue.PRESETS:
        raise unknown("preset", recipe.model.preset, catalogue.PRESETS)
    if recipe.model.init and not os.path.isdir(recipe.model.init):
        raise UsageError(f"model.init: {recipe.model.init} is not a folder")
    if not recipe.data.train:
        raise UsageError("data.train names no file: --set data.train=FILE")
    for paths in (recipe.data.train, recipe.data.valid, recipe.data.test):
        for path in paths:
            if not path.startswith(("phrasebook:", "hf:")):
                _must_exist(path)
    if recipe.data.separator and recipe.task not in ("classify", "mixture"):
        raise UsageError(f"data.separator is for classify, alone or in a mixture, not for {recipe.task}")
    if recipe.data.dropout and recipe.task not in ("translate", "classify", "tag", "mixture"):
        raise UsageError(
            f"data.dropout is for translate, classify and tag, alone or in a mixture, not for {recipe.task}"
        )
    if recipe.data.short and (recipe.task not in WINDOWED or paired(recipe.settings)):
        what = "pairs of sentences" if recipe.task in WINDOWED else recipe.task
        raise UsageError(f"data.short is for packed windows, not for {what}: set data.short=0 and data.max_length")
    if recipe.train.match_rates and (recipe.task != "classify" or recipe.data.separator):
        what = "several labels of one example" if recipe.task == "classify" else recipe.task
        raise UsageError(f"train.match_rates is for classify with one class each, not for {what}")
    for key, name, allowed in (
        ("optim.name", recipe.optim.name, OPTIMIZERS),
        ("optim.schedule", recipe.optim.schedule, SCHEDULES),
        ("train.precision", recipe.train.precision, PRECISIONS),
        ("train.compile", recipe.train.compile, COMPILES),
        ("tokenizer.kind", recipe.tokenizer.kind, KINDS),
    ):
        if name not in allowed:
            raise unknown(key, name, allowed)
    for key, least in LEAST.items():
        if (value := _number(recipe, key)) < least:
            raise UsageError(f"{key} must be at least {least:g}, got {value:g}")
    for key, most in MOST.items():
        if (value := _number(recipe, key)) > most:
            raise UsageError(f"{key} must be at most {most:g}, got {value:g}")
    TASKS[recipe.task].objective(recipe.settings)
    check_tracker(recipe.log)


def _must_exist(path: str) -> None:
    for found in expand([path]):
        if not os.path.exists(stored_file(found)):
            raise UsageError(f"there is no file {found}")


def _number(recipe: Recipe, key: str) -> float:
    table, _, name = key.partition(".")
    return float(getattr(getattr(recipe, table), name))
