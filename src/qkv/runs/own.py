"""Parts of a run that you can provide yourself: a task, an objective, a model, batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from qkv.common.errors import UsageError
from qkv.recipes.schema import Recipe
from qkv.tasks.base import Task
from qkv.tasks.table import read_task

Callback = Callable[[int, dict[str, float]], None]  # called with the step and the values of each line of metrics.jsonl


@dataclass(frozen=True)
class Own:
    """The parts that the caller provides; None means the recipe's own.

    Attributes:
        task: a subclass of `Task`, which is built from the recipe's tables, or an instance.
        objective: maps (model, batch) to losses, with `weights` and `counts` as in `qkv.objectives.parts.Objective`.
        model: a module, or a function from the model config (including the vocabulary size) to a module.
        batches: maps a data position to an endless stream of (batch, position after it).
        valid_batches: returns the validation batches, starting from the first on each call.
        callbacks: called with the step and the values of each line of metrics.jsonl.
    """

    task: type[Task] | Task | None = None
    objective: Any = None
    model: nn.Module | Callable[[Any], nn.Module] | None = None
    batches: Callable[[int], Iterator[tuple[Any, int]]] | None = None
    valid_batches: Callable[[], Iterable[Any]] | None = None
    callbacks: Sequence[Callback] = ()

    def task_for(self, recipe: Recipe) -> Task:
        """Return the caller's task, or the recipe's."""
        if self.task is None:
            return read_task(recipe.task, recipe.objective, recipe.data)
        if isinstance(self.task, Task):
            return self.task
        if isinstance(self.task, type) and issubclass(self.task, Task):
            return self.task.read(recipe.objective, recipe.data)
        raise UsageError(f"task takes a subclass or an instance of qkv.tasks.base.Task, got {self.task!r}")

    def build(self, config: Any) -> nn.Module:
        """Return the caller's module."""
        found = self.model if isinstance(self.model, nn.Module) else self.model(config) if self.model else None
        if not isinstance(found, nn.Module):
            raise UsageError(f"model takes a torch module or a function that returns one, got {type(found).__name__}")
        return found
