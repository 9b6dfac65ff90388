"""How much each attention head matters to a model's loss on labelled files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from qkv.common.batch import move
from qkv.common.errors import UsageError, system_errors
from qkv.data.config import DataConfig
from qkv.data.loaders import Loader
from qkv.data.store import Store
from qkv.exams.evaluate import task_for
from qkv.insight.agreement import agreement
from qkv.insight.head_importance import ablation_importance, gradient_importance
from qkv.objectives.parts import Losses
from qkv.predict import Model
from qkv.predict.batching import TOKENS_PER_BATCH
from qkv.tasks.base import Context, Task
from qkv.tasks.table import TASKS

EXAMPLES = 256  # read by default: every head is one more pass over them
SEED = 0
LossWith = Callable[[nn.Module, Any], tuple[Tensor, int]]  # of a model on a batch: the sum and the number of targets


@dataclass(frozen=True)
class HeadImportance:
    """How much each head matters.

    Attributes:
        gradient: the mean of |dL/dξ| (Michel et al. 2019), by kind of attention. Shape of each: [layers, heads].
        ablation: by how much the loss grows without the head, or None if it was not measured.
        examples: the examples that were read.
    """

    gradient: dict[str, Tensor]
    ablation: dict[str, Tensor] | None
    examples: int

    @property
    def agreement(self) -> float | None:
        """The rank correlation of gradient and size of the ablation over all heads, or None.

        The gradient has no sign: it says that a head matters, not whether the loss is better with it.
        """
        if self.ablation is None:
            return None
        first, second = (
            [value for one in found.values() for value in one.abs().flatten().tolist()]
            for found in (self.gradient, self.ablation)
        )
        return agreement(first, second)

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        ablation = None if self.ablation is None else {kind: one.tolist() for kind, one in self.ablation.items()}
        return {
            "gradient": {kind: one.tolist() for kind, one in self.gradient.items()},
            "ablation": ablation,
            "agreement": self.agreement,
            "examples": self.examples,
        }


@system_errors()
def head_importance(
    model: Model,
    paths: Sequence[str],
    data: DataConfig | None = None,
    *,
    ablation: bool = True,
    examples: int = EXAMPLES,
    given: Sequence[Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> HeadImportance:
    """Measure how much each head matters to the loss of the task that scores the model.

    Args:
        model: any model with attention heads and a head that a task can score.
        paths: files with the correct answers.
        data: how to read the files, as in `evaluate`.
        ablation: also remove one head after the other, which takes a pass over the examples for each.
        examples: how many examples, or windows of a running text, to read from the start of the files.
        given: the examples, instead of those in `paths`.
        progress: called with 1 for each batch and head that is done.
    """
    if examples < 1:
        raise UsageError(f"examples must be at least 1, got {examples}")
    model.check_layers("head_importance")
    loss_with, batches, count = loss_on(model, paths, data, examples, given)

    def loss(batch: Any) -> tuple[Tensor, int]:
        return loss_with(model.module, batch)

    return HeadImportance(
        gradient=gradient_importance(model.module, batches, loss, progress=progress),
        ablation=ablation_importance(model.module, batches, loss, progress=progress) if ablation else None,
        examples=count,
    )


def loss_task(model: Model) -> type[Task]:
    """Find the task whose loss is measured: the one that scores the model, or else the one that trains its heads."""
    heads = set(getattr(model.config, "heads", ()))
    trains = (task for task in TASKS.values() if task.reads_windows and task.heads and set(task.heads) <= heads)
    if any(task.can_score(model) for task in TASKS.values()):
        return task_for(model)
    return next(trains, None) or task_for(model)  # which says that there is none


def loss_on(
    model: Model, paths: Sequence[str], data: DataConfig | None, examples: int, given: Sequence[Any] | None = None
) -> tuple[LossWith, list[Any], int]:
    """Return the loss of the model's task, the first examples of some files in batches, and how many they are."""
    kind = loss_task(model)
    task = kind(kind.Settings(), data or kind.default_data(model))
    facts = {"labels": model.label_names} if model.label_names else {}
    context = Context(model.tokenizer, model.config, facts, lambda _: None)
    with tempfile.TemporaryDirectory(prefix="qkv-") as folder:
        read = task.examples(paths) if given is None else given
        rows = islice(task.rows(read, context), examples)
        store = Store.cached(Path(folder) / "examples", "", lambda: rows)
        budget = TOKENS_PER_BATCH.get(model.device.type, TOKENS_PER_BATCH["cpu"])
        sampler = task.sampler(store, context, tokens=budget, seed=SEED, shuffle=False)
        loader = Loader(sampler, task.collate(store, context), workers=0, epochs=1)
        batches = [move(batch, model.device) for batch, _ in loader.iterate()]
        objective, count = task.objective_for(context), len(store)

    def loss(module: nn.Module, batch: Any) -> tuple[Tensor, int]:
        found: Losses = objective(module, batch)
        parts = [objective.weights.get(name, 1.0) * part.total for name, part in found.items()]
        return sum(parts[1:], parts[0]), int(max(int(part.count) for part in found.values()))

    model.module.eval()
    return loss, batches, count
