"""Which training examples are held out for validation: by content, so that a split depends on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from qkv.data.bad_rows import BadRows
from qkv.data.split import held_out, stratified
from qkv.tasks.base import Task

SEED = 0  # of the split; not the run's, so that runs with other seeds are validated on the same examples


def splitter(task: Task) -> Callable[[Any], bool]:
    """Return what tells whether an example is held out; examples with the same key stay together."""
    share = task.data.held_out
    first = next(task.examples(task.data.train, BadRows()), None)
    if first is None or task.stratum(first) is None:
        return lambda example: held_out(task.key(example), share, SEED)
    seen: list[int] = []  # a hash of each key, so that memory does not hold the texts

    def classes() -> Iterator[tuple[str, str]]:
        for example in task.examples(task.data.train, BadRows()):
            seen.append(hash(key := task.key(example)))
            yield key, task.stratum(example) or ""

    chosen = {seen[number] for number in stratified(classes(), share, SEED)}
    return lambda example: hash(task.key(example)) in chosen


def validation_examples(task: Task) -> Iterator[Any]:
    """Read the examples that a run is validated on."""
    if task.data.valid:
        return task.examples(task.data.valid)
    return filter(splitter(task), task.examples(task.data.train))
