"""A recipe as the training loop sees it, for benchmarks that take its steps themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from qkv.recipes.schema import read_recipe
from qkv.runs.own import Own
from qkv.runs.resolve import resolve
from qkv.runs.run import job_of, prepare
from qkv.training.run import Run


def run_of(name: str, changes: Sequence[str], folder: Path, device: torch.device) -> Run:
    """Prepare a run in a folder: its data, its model, and what the loop needs, with every "auto" set."""
    recipe = resolve(read_recipe(name, [f"out={folder / 'run'}", *changes]), folder / "none", Own(), print)
    prepared = prepare(recipe, folder / "run", print)
    return Run(job_of(recipe, prepared, prepared.model.to(device).train(), print), recipe.train, recipe.optim)
