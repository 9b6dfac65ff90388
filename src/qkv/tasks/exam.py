"""Exams: score a model's predictions on files with metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, TypeVar

from qkv.data.bad_rows import BadRows
from qkv.evaluation.score import Score

CHUNK = 512  # examples predicted at a time, so that memory does not grow with the data
T = TypeVar("T")


class Reader(Protocol):
    """A task that reads examples from files."""

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Any]:
        """Read the examples of some files."""
        ...


@dataclass(frozen=True)
class Exam:
    """A model and the files to score it on.

    Attributes:
        model: a `qkv.Model`; a task uses only its public methods.
        paths: files with the correct answers.
        beam: the beam size of a translator.
        progress: called with the number of examples in each finished chunk.
        ends: whether a language model was trained to predict the end of a document.
        skipped: counts the skipped rows.
        examples: the examples to score on instead of those in the files.
    """

    model: Any
    paths: Sequence[str] = ()
    beam: int = 4
    progress: Callable[[int], None] = lambda _: None
    ends: bool = False
    skipped: BadRows = field(default_factory=BadRows)
    examples: Sequence[Any] | None = None

    def read(self, task: Reader) -> Iterator[Any]:
        """Yield the examples to score on."""
        return task.examples(self.paths, self.skipped) if self.examples is None else iter(self.examples)

    def chunks(self, examples: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
        """Split the examples into lists, and report progress after each list."""
        for chunk in chunks(examples, size):
            yield chunk
            self.progress(len(chunk))


class Metric(Protocol):
    """A metric that compares a prediction with the correct answer."""

    def add(self, said: Any, right: Any, /) -> None:
        """Add one example."""
        ...

    def result(self) -> Score:
        """Return the score of the examples so far."""
        ...


def graded(metrics: Sequence[Metric], answers: Iterable[tuple[Any, Any]]) -> list[Score]:
    """Add every prediction and its correct answer to every metric."""
    for said, right in answers:
        for metric in metrics:
            metric.add(said, right)
    return [metric.result() for metric in metrics]


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split a stream into lists."""
    stream = iter(items)
    while chunk := list(islice(stream, size)):
        yield chunk
