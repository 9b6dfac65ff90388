"""Hold out training examples for validation. The split depends only on the content of the examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import filterfalse
from typing import Any

from qkv.data.bad_rows import BadRows
from qkv.data.split import held_out, stratified
from qkv.tasks.base import Task

SEED = 0  # of the split, independent of the run's seed, so that all runs are validated on the same examples


def splitter(task: Task) -> Callable[[Any], bool]:
    """Return a function that decides whether to hold out an example; examples with the same key stay together."""
    share = task.data.held_out
    first = next(task.examples(task.data.train, BadRows()), None)
    if first is None or task.stratum(first) is None:
        return lambda example: held_out(task.key(example), share, SEED)
    seen: list[int] = []  # a hash of each key, so that the texts are not kept in memory

    def classes() -> Iterator[tuple[str, str]]:
        for example in task.examples(task.data.train, BadRows()):
            seen.append(hash(key := task.key(example)))
            yield key, task.stratum(example) or ""

    chosen = {seen[number] for number in stratified(classes(), share, SEED)}
    return lambda example: hash(task.key(example)) in chosen


def training_examples(task: Task) -> Iterator[Any]:
    """Read the training examples of a run, without those that are held out for validation."""
    examples = task.examples(task.data.train)
    return examples if task.data.valid else filterfalse(splitter(task), examples)


def validation_examples(task: Task) -> Iterator[Any]:
    """Read the validation examples of a run."""
    if task.data.valid:
        return task.examples(task.data.valid)
    return filter(splitter(task), task.examples(task.data.train))
