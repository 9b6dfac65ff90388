"""Hold out training examples for validation. The split depends only on the content of the examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, filterfalse
from typing import Any

from qkv.data.bad_rows import BadRows
from qkv.data.remembered import remembered
from qkv.data.split import splitting, stratified
from qkv.tasks.base import Say, Task

SEED = 0  # of the split, independent of the run's seed, so that all runs are validated on the same examples


def splitter(task: Task) -> Callable[[Any], bool]:
    """Return a function that decides whether to hold out an example; examples with the same key stay together."""
    kind = f"{type(task).__module__}.{type(task).__qualname__}"
    return remembered(f"split of {kind}", task.data.train, lambda: _splitter(task), task.data, task.settings)


def _splitter(task: Task) -> Callable[[Any], bool]:
    share = task.data.held_out
    first = next(task.examples(task.data.train, BadRows()), None)
    if first is not None and task.side(first) is not None:
        return lambda example: bool(task.side(example))
    if first is None or task.stratum(first) is None:
        held = splitting(map(task.key, task.examples(task.data.train, BadRows())), share, SEED)
        return lambda example: held(task.key(example))
    seen: list[int] = []  # a hash of each key, so that the texts are not kept in memory

    def classes() -> Iterator[tuple[str, str]]:
        for example in task.examples(task.data.train, BadRows()):
            seen.append(hash(key := task.key(example)))
            yield key, task.stratum(example) or ""

    chosen = {seen[number] for number in stratified(classes(), share, SEED)}
    return lambda example: hash(task.key(example)) in chosen


def held_out_words(task: Task) -> str:
    """Say what is held out."""
    first = next(task.examples(task.data.train, BadRows()), None)
    share = f"{task.data.held_out:.0%}"
    by_position = first is not None and task.side(first) is not None
    return f"the last {share} of the text is" if by_position else f"{share} of the {task.held_out_unit} are"


def training_examples(task: Task) -> Iterator[Any]:
    """Read the training examples of a run, without those that are held out for validation."""
    if (parts := named_parts(task)) is not None:
        return chain.from_iterable(_named(name, training_examples(part)) for name, part in parts.items())
    examples = task.examples(task.data.train)
    return examples if task.data.valid else filterfalse(splitter(task), examples)


def validation_examples(
    task: Task, held: Callable[[Any], bool] | None = None, skipped: BadRows | None = None, say: Say = lambda _: None
) -> Iterator[Any]:
    """Read the validation examples of a run; if there are too few to hold one out, these are the training examples.

    Args:
        task: the task and its data.
        held: the result of `splitter`, if it is known.
        skipped: counts skipped rows.
        say: prints a line for the user.
    """
    if named_parts(task) is not None:
        return in_turn(validation_streams(task, skipped, say))
    if task.data.valid:
        return task.examples(task.data.valid, skipped)
    found = filter(held or splitter(task), task.examples(task.data.train, skipped))
    first = next(found, None)
    if first is not None or not task.data.held_out:
        return found if first is None else chain([first], found)
    say("there are too few examples to hold one out: the training examples are used for validation too")
    return task.examples(task.data.train, skipped)


def validation_streams(task: Task, skipped: BadRows | None = None, say: Say = lambda _: None) -> list[Iterator[Any]]:
    """Read the validation examples of each part of a mixture, with its name; of any other task, all in one stream."""
    if (parts := named_parts(task)) is None:
        return [validation_examples(task, None, skipped, say)]
    return [_named(name, validation_examples(part, None, skipped, say)) for name, part in parts.items()]


def named_parts(task: Task) -> Mapping[str, Task] | None:
    """Return the parts of a mixture by name, or None for any other task."""
    parts = task.parts()
    return None if "" in parts else parts


def in_turn(streams: Iterable[Iterator[Any]]) -> Iterator[Any]:
    """Yield one item of each stream in turn, until all have ended."""
    left = list(streams)
    while left:
        ended = []
        for stream in left:
            try:
                yield next(stream)
            except StopIteration:
                ended.append(stream)
        left = [stream for stream in left if stream not in ended]


def _named(name: str, examples: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((name, example) for example in examples)
