"""Multi-task training: every step takes a batch of each task and sums the weighted losses.

[data]               train = ["notes.txt", "topics.tsv"]
[data.mix]           masked.files = ["*.txt"]    classify.files = ["*.tsv"]
[objective.mix]      masked.weight = 1.0         classify.weight = 0.5

Each part is a task with its own files, settings and stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from torch import nn

from qkv.checkpoints.folder import Folder
from qkv.common.errors import UsageError, unknown
from qkv.data.bad_rows import BadRows
from qkv.data.config import DataConfig
from qkv.data.order import Sampler
from qkv.data.store import Store
from qkv.objectives.mixture import Mixture
from qkv.tasks.base import Array, Collate, Context, Say, Task
from qkv.tasks.facts import Rule
from qkv.tasks.mixed_order import MixedSampler
from qkv.tasks.mixed_tables import both_tables, own_data, weight_of
from qkv.tasks.pretraining_rules import MASKED, rules

Stores = Mapping[str, Store]


@dataclass(frozen=True)
class Weighted:
    """A part of a mixture: a task and the weight of its loss."""

    task: Task
    weight: float


class MixtureTask(Task):
    """A task made of other tasks; a tokenizer trained for it has BERT's special tokens."""

    rules: ClassVar[Mapping[str, Rule]] = rules(MASKED)
    known: ClassVar[Mapping[str, type[Task]]] = {}  # the tasks that can be parts; tasks/table.py fills it in
    mixable: ClassVar[bool] = False
    Settings: ClassVar[type[Any]] = dict

    @classmethod
    def read(cls, objective: Mapping[str, Any], data: DataConfig) -> Self:
        """Create each part with its files, settings and weight."""
        if other := objective.keys() - {"mix"}:
            raise unknown("key of a mixture's objective", min(other), ["mix"])
        settings, tables = both_tables(objective, data, cls.known)
        parts = {}
        for name, table in settings.items():
            weight = weight_of(name, table.pop("weight", None))
            parts[name] = Weighted(cls.known[name].read(table, own_data(data, name, tables[name])), weight)
        return cls(parts, data)

    def parts(self) -> Mapping[str, Task]:
        """Return the parts sorted by name, since data positions depend on their order."""
        return {name: part.task for name, part in self.settings.items()}

    def allows(self, key: str) -> bool:
        """A key is allowed if a part supports it, except data.short."""
        return key != "data.short" and any(task.allows(key) for task in self.parts().values())

    def model_heads(self) -> tuple[str, ...]:
        """Return the heads of all parts."""
        return tuple(dict.fromkeys(head for task in self.parts().values() for head in task.model_heads()))

    def check_model(self, model: nn.Module, context: Context) -> None:
        """Check the model for each part."""
        for task in self.parts().values():
            task.check_model(model, context)

    def resolved(self, say: Say) -> Self:
        """Resolve each part."""
        found = {name: replace(part, task=part.task.resolved(say)) for name, part in self.settings.items()}
        return replace(self, settings=found)

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[tuple[str, Any]]:
        """Read the training examples of all parts, each with the name of its part."""
        del paths
        for name, task in self.parts().items():
            yield from ((name, example) for example in task.examples(task.data.train, skipped))

    def texts(self, example: tuple[str, Any]) -> Iterable[str]:
        """Return the texts of an example by its part."""
        name, inner = example
        return self.parts()[name].texts(inner)

    def survey(self, examples: Iterable[tuple[str, Any]], say: Say) -> dict[str, Any]:
        """Survey each part; only one of them may have labels."""
        del examples
        found = {name: task.survey(task.examples(task.data.train), say) for name, task in self.parts().items()}
        having = [name for name, facts in found.items() if facts.get("labels")]
        if len(having) > 1:
            raise UsageError(
                f"a model has one set of classes, but the parts {' and '.join(having)} each have their own"
            )
        return {key: value for facts in found.values() for key, value in facts.items()}

    def saved(self, model: nn.Module, config: Any, context: Context) -> dict[str, tuple[Any, Any]]:
        """Let each part finish its head."""
        for task in self.parts().values():
            config, model = task.saved(model, config, context)[""]
        return {"": (config, model)}

    def folder_facts(self, context: Context) -> dict[str, Any]:
        """Return the folder facts of all parts."""
        found = [task.folder_facts(context) for task in self.parts().values()]
        return {key: value for facts in found for key, value in facts.items()}

    def sampler(self, store: Stores, context: Context, *, tokens: int, seed: int, shuffle: bool) -> Sampler:
        """Sample a batch of each part at a time, which share the token budget; in evaluation, read each part once."""
        orders = [
            task.sampler(store[name], context, tokens=self.share(name, tokens), seed=seed, shuffle=shuffle)
            for name, task in self.parts().items()
        ]
        return MixedSampler(tuple(orders), once=not shuffle)

    def share(self, name: str, tokens: int) -> int:
        """Return how many of the tokens of a step a part gets: all parts get the same."""
        del name
        return max(1, tokens // len(self.parts()))

    def collate(self, store: Stores, context: Context) -> Collate:
        """Make a batch of each part that has rows."""
        makers = {name: task.collate(store[name], context) for name, task in self.parts().items()}

        def make(rows: Array, rng: np.random.Generator) -> dict[str, Any]:
            mine = {name: rows[rows[:, 0] == number, 1] for number, name in enumerate(makers)}
            return {name: makers[name](part, rng) for name, part in mine.items() if len(part)}

        return make

    def objective(self) -> Mixture:
        """Return the weighted losses of all parts."""
        return Mixture({name: (part.task.objective(), part.weight) for name, part in self.settings.items()})

    def objective_for(self, context: Context) -> Mixture:
        """Return the weighted losses of all parts once the training examples are known."""
        return Mixture({name: (part.task.objective_for(context), part.weight) for name, part in self.settings.items()})

    def after_training(
        self, found: Folder, model: Any, context: Context, train: Stores, valid: Stores
    ) -> Folder | None:
        """Run `after_training` of each part in turn."""
        changed = None
        for name, task in self.parts().items():
            finished = task.after_training(changed or found, model, context, train[name], valid[name])
            changed = finished or changed
        return changed
