"""`qkv.train(recipe, ...)`: train from Python, with your own task, objective, model or batches if you like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike, fspath
from typing import Any

from torch import nn

from qkv.common.terminal import to_standard_error
from qkv.recipes.schema import Recipe, Say, change, read_recipe
from qkv.runs.layout import is_run
from qkv.runs.own import Callback, Own
from qkv.runs.resume import begun
from qkv.runs.run import run_recipe
from qkv.tasks.base import Task
from qkv.training.loop import Outcome


def train(
    recipe: str | PathLike[str] | Recipe,
    *,
    task: type[Task] | Task | None = None,
    objective: Any = None,
    model: nn.Module | Callable[[Any], nn.Module] | None = None,
    batches: Callable[[int], Iterator[tuple[Any, int]]] | None = None,
    valid_batches: Callable[[], Iterable[Any]] | None = None,
    callbacks: Sequence[Callback] = (),
    changes: dict[str, Any] | None = None,
    resume: bool = False,
    device: str | None = None,
    say: Say | None = None,
) -> Outcome:
    """Run a recipe, optionally with your own parts; docs/extending.md has an example of each.

    Args:
        recipe: the name of a shipped recipe, a TOML file, or a `Recipe`; with `resume`, also the folder of a run.
        task: your own task: a subclass of `qkv.tasks.base.Task`, or an instance.
        objective: your own objective: a callable from the model and a batch to losses.
        model: your own module, or a function from the model config to one. The run's folder then holds its weights, but
            `qkv.load` cannot read it.
        batches: your own batches: a function from a data position to an endless stream of (batch, position after it).
            The recipe then needs train.steps but no data.
        valid_batches: returns the validation batches, for use with `batches`.
        callbacks: called with the step and the values of each line of metrics.jsonl.
        changes: keys of the recipe to change, for example {"train.steps": 100, "out": "runs/mine"}.
        resume: continue a run that was stopped.
        device: "cpu", "cuda" or "cuda:1". If None, CUDA if it is available.
        say: called with each line of progress; standard error if None.

    Returns:
        How the run ended. The model is in the recipe's `out`: load it with `qkv.load`.
    """
    if isinstance(recipe, Recipe):
        asked = recipe
    else:
        goes_on = resume and is_run(recipe)
        asked = begun(fspath(recipe)).recipe if goes_on else read_recipe(fspath(recipe))
    own = Own(task, objective, model, batches, valid_batches, callbacks)
    return run_recipe(change(asked, changes or {}), resume=resume, device=device, say=say or to_standard_error, own=own)
