"""Exams: score a model's predictions on files with metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol, TypeVar

from qkv.data.bad_rows import BadRows
from qkv.evaluation.prediction import Prediction
from qkv.evaluation.score import Score

CHUNK = 512  # examples predicted at a time, so that memory does not grow with the data
T = TypeVar("T")


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
        given: the examples to score; if None, they are read from `paths`.
        watch: called with each prediction.
        stride: for perplexity, how far windows slide along a text; 0 for windows that do not overlap.
    """

    model: Any
    paths: Sequence[str] = ()
    beam: int = 4
    progress: Callable[[int], None] = lambda _: None
    ends: bool = False
    skipped: BadRows = field(default_factory=BadRows)
    given: Sequence[Any] | None = None
    watch: Callable[[Prediction], None] = lambda _: None
    stride: int = 0

    def examples(self, task: Reader) -> Iterator[Any]:
        """Return the examples to score."""
        return task.examples(self.paths, self.skipped) if self.given is None else iter(self.given)

    def answers(self, predictions: Iterable[Prediction]) -> Iterator[tuple[Any, Any]]:
        """Yield what the model said and what is correct, and show each prediction to `watch`."""
        for found in predictions:
            self.watch(found)
            yield found.said, found.gold

    def chunks(self, examples: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
        """Split the examples into lists, and report progress after each list."""
        for chunk in chunks(examples, size):
            yield chunk
            self.progress(len(chunk))


class Reader(Protocol):
    """A task that reads examples."""

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Any]:
        """Read the examples of some files."""
        ...


class Metric(Protocol):
    """A metric that compares a prediction with the correct answer."""

    def add(self, said: Any, right: Any, /) -> None:
        """Add one example."""
        ...

    def result(self) -> Score:
        """Return the score of the examples so far."""
        ...


@dataclass(frozen=True)
class Signed:
    """A metric whose signature also says how the model was asked."""

    metric: Metric
    asked: str

    def add(self, said: Any, right: Any) -> None:
        """Add one example."""
        self.metric.add(said, right)

    def result(self) -> Score:
        """Return the score with the longer signature."""
        score = self.metric.result()
        return replace(score, signature=f"{score.signature}|{self.asked}")


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
