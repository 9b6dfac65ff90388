"""What the variants of a comparison must have in common: parameters, or seconds of training."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from qkv.checkpoints.folder import read_folder
from qkv.common import disk
from qkv.common.config import override
from qkv.common.errors import UsageError
from qkv.nn.init import without_weights
from qkv.predict import find
from qkv.recipes.schema import Recipe, Say, change
from qkv.runs.layout import read_table
from qkv.runs.own import Own
from qkv.runs.prepare import model_config
from qkv.runs.run import run_recipe
from qkv.tasks.table import read_task

STEPS = "steps.json"
TRIAL = 20  # steps to time
FIRST = 3  # of them do not count: caches are cold and, on CUDA, steps are being recorded


def check_parameters(recipes: Mapping[str, Recipe], most: float) -> None:
    """Raise an error if the numbers of parameters differ by more than a share of the smallest."""
    counts = {name: count_parameters(recipe) for name, recipe in recipes.items()}
    low, high = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
    if (share := counts[high] / counts[low] - 1) > most:
        raise UsageError(
            f"budget.parameters allows {most:.0%}, but {high} has {counts[high]:,} parameters and {low} "
            f"{counts[low]:,} ({share:.0%} more): change their sizes or the budget"
        )


def count_parameters(recipe: Recipe) -> int:
    """Count the parameters of a recipe's model, with as many tokens as the recipe asks for, without building it."""
    task = read_task(recipe.task, recipe.objective, recipe.data)
    start = read_folder(find(recipe.model.init)) if recipe.model.init else None
    config = model_config(recipe, task, None, {}, start)
    if start is None and "vocab_size" in {field.name for field in fields(config)}:
        given = recipe.model.set.get("vocab_size", recipe.tokenizer.vocab_size)
        config = override(config, {"vocab_size": given})
    with without_weights():
        model = task.build(config)
    return sum(parameter.numel() for parameter in model.parameters())


def steps_within(seconds: float, recipe: Recipe, name: str, out: Path, *, device: str | None, say: Say) -> int:
    """Return how many steps fit into some seconds; a comparison that goes on keeps the number it has measured."""
    kept = read_table(out / STEPS)
    if name not in kept:
        say(f"{name}: timing {TRIAL} steps")
        kept[name] = max(1, round(seconds / _seconds_per_step(recipe, out / f"trial-{name}", device)))
        out.mkdir(parents=True, exist_ok=True)
        disk.replace_file(out / STEPS, json.dumps(kept, indent=2).encode() + b"\n")
        say(f"{name}: {kept[name]:,} steps fit into {seconds:g} seconds")
    return int(kept[name])


def _seconds_per_step(recipe: Recipe, folder: Path, device: str | None) -> float:
    times: list[float] = []
    small = {"train.steps": TRIAL, "train.log_every": 1, "train.validate_every": 1e9, "train.save_every": 1e9}
    own = Own(callbacks=[lambda _step, _values: times.append(time.perf_counter())])
    disk.remove(folder)  # of a trial that was cut off
    try:
        run_recipe(
            change(recipe, small | {"out": str(folder)}), device=device, say=lambda _: None, own=own, report=False
        )
    finally:
        disk.remove(folder)
    return statistics.median(b - a for a, b in zip(times[FIRST:TRIAL], times[FIRST + 1 : TRIAL], strict=False))
