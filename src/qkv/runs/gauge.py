"""Quality, parameters, size, speed and energy of models, measured on the same examples.

Speed is the time from text to answer, one by one and in batches, as in `qkv evaluate`. Models are timed in turns, so
that other work on the machine slows all of them down.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from qkv.common.errors import UsageError
from qkv.common.progress import Bar
from qkv.evaluation.score import Score
from qkv.exams.evaluate import exam_of, task_for
from qkv.exams.report.naming import name_of
from qkv.exams.study import explains
from qkv.predict import Model
from qkv.runs.trained_on import Reading
from qkv.tasks.base import Task
from qkv.tasks.exam import Exam
from qkv.training.energy import Meter

TIMED = 64  # examples that are answered for the speed
ROUNDS = 3  # over these examples
ENOUGH = 10.0  # seconds for a model: after these, fewer examples are timed


@dataclass(frozen=True)
class Speed:
    """Time and energy of answers.

    Attributes:
        milliseconds: of one answer by itself, the median.
        per_second: answers in a second if all examples are given at once.
        joules: of one answer by itself, the median over rounds.
        power: where the energy comes from, such as RAPL or an estimate.
    """

    milliseconds: float
    per_second: float
    joules: float
    power: str


@dataclass(frozen=True)
class Figures:
    """Quality, size, speed and energy of a model.

    Attributes:
        scores: the value of each metric, the most important one first.
        parameters: the number of its weights.
        megabytes: the weights on disk.
        speed: None if it was not measured.
    """

    scores: Mapping[str, float]
    parameters: int
    megabytes: float
    speed: Speed | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return asdict(self)


def megabytes(folder: Path) -> float:
    """Return the size of the weights in a model folder."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e6


def parameters(model: Model) -> int:
    """Count the weights of a model."""
    return sum(parameter.numel() for parameter in model.module.parameters())


class Gauge:
    """Measures models on the same examples.

    Args:
        reading: how the files are read.
        model: a model that the task can score.
        paths: files with the correct answers.
        given: the examples, instead of those in `paths`.
        task: what scores the models; found by `reading` and the model if None.
    """

    def __init__(
        self,
        reading: Reading,
        model: Model,
        paths: Sequence[str] = (),
        given: Sequence[Any] | None = None,
        *,
        task: Task | None = None,
    ) -> None:
        self._task: Task = task or (reading.task or task_for(model)).for_model(model, reading.data)
        self._exam = replace(exam_of(model, type(self._task), paths, ends=reading.ends), given=given)
        self._few = list(islice(self._exam.examples(self._task), TIMED))
        if not self._few:
            raise UsageError(f"{', '.join(paths)} has no example to measure on")

    def scores(self, model: Model) -> list[Score]:
        """Score a model."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # texts that are too long are the same for all models
            return self._task.score(replace(self._exam, model=model))

    def speeds(self, models: Mapping[str, Model]) -> dict[str, Speed]:
        """Time models in turns; a first round warms up and finds how many examples there is time for."""
        count = min(self._affordable(model) for model in models.values())
        answers: dict[str, list[float]] = {name: [] for name in models}
        joules: dict[str, list[float]] = {name: [] for name in models}
        batched: dict[str, list[float]] = {name: [] for name in models}
        power = ""
        with Bar("timing", total=ROUNDS * len(models)) as bar:
            for _ in range(ROUNDS):
                for name, model in models.items():
                    meter = Meter(model.device)
                    answers[name] += [self._seconds(model, [example]) for example in self._few[:count]]
                    used = meter.read()
                    joules[name].append(used.total / count)
                    power = used.power
                    batched[name].append(self._seconds(model, self._few[:count]) / count)
                    bar.add(1)
        return {
            name: Speed(
                1000 * statistics.median(answers[name]),
                1 / statistics.median(batched[name]),
                statistics.median(joules[name]),
                power,
            )
            for name in models
        }

    def figures(self, model: Model, folder: Path, speed: Speed, scores: Sequence[Score] | None = None) -> Figures:
        """Put the figures of a model together; it is scored unless its scores are known."""
        values = {name_of(score): score.value for score in (scores or self.scores(model))}
        return Figures(values, parameters(model), megabytes(folder), speed)

    def _affordable(self, model: Model) -> int:
        """Return how many examples fit into the time."""
        self._seconds(model, self._few[:1])  # builds caches
        spent = self._seconds(model, self._few[:1])
        return max(1, min(len(self._few), int(ENOUGH / ROUNDS / max(spent, 1e-9))))

    def _seconds(self, model: Model, examples: Sequence[Any]) -> float:
        """Answer some examples, as in scoring."""
        exam = Exam(model, beam=self._exam.beam, ends=self._exam.ends, given=examples)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            if explains(self._task):
                for _ in self._task.predictions(exam):
                    pass
            else:
                self._task.score(exam)
            return time.perf_counter() - start
