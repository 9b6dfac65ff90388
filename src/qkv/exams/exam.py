"""What a model is asked when it is evaluated: which files, read how, and answered how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from qkv.data.bad_rows import BadRows
from qkv.data.config import DataConfig
from qkv.evaluation.score import Score
from qkv.predict import Model
from qkv.tasks.base import chunks

CHUNK = 512  # examples that are answered at a time: memory does not grow with the data
T = TypeVar("T")


@dataclass(frozen=True)
class Exam:
    """A model and its questions.

    Attributes:
        model: who answers.
        paths: files with the right answers.
        data: how they are read.
        beam: hypotheses that a translator keeps side by side.
        progress: told how many examples are done.
        ends: whether a language model was trained to predict the end of a document.
        skipped: counts the rows that were left out.
    """

    model: Model
    paths: Sequence[str]
    data: DataConfig
    beam: int
    progress: Callable[[int], None]
    ends: bool = False
    skipped: BadRows = field(default_factory=BadRows)

    @property
    def reading(self) -> dict[str, Any]:
        """What every source is told about bad rows."""
        return {"bad": self.data.bad, "skipped": self.skipped}

    def chunks(self, examples: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
        """Cut the examples into lists, and tell of each once it is done."""
        for chunk in chunks(examples, size):
            yield chunk
            self.progress(len(chunk))


class Metric(Protocol):
    """A metric that compares what was said with what is right."""

    def add(self, said: Any, right: Any, /) -> None:
        """Compare one example."""
        ...

    def result(self) -> Score:
        """Return the score of the examples so far."""
        ...


def graded(metrics: Sequence[Metric], answers: Iterable[tuple[Any, Any]]) -> list[Score]:
    """Give what was said and what is right, example by example, to every metric."""
    for said, right in answers:
        for metric in metrics:
            metric.add(said, right)
    return [metric.result() for metric in metrics]
