"""A closer look at a model's answers: one pass over the examples yields the scores and everything a report shows.

    examples ─► predictions ─► metrics ─► scores
                    ├─► the same metrics on trivial answers, and on texts of each length
                    └─► confusion matrix, rates of each class, calibration, the worst mistakes

Memory use does not grow with the number of examples.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from qkv.common.errors import UsageError, system_errors
from qkv.data.config import DataConfig
from qkv.data.files import check_rereadable, expand
from qkv.evaluation.calibration import Calibration, Reliability
from qkv.evaluation.confusion import ClassRates, Confusion, Matrix
from qkv.evaluation.lengths import ByLength, LengthScore
from qkv.evaluation.prediction import Prediction
from qkv.evaluation.report import as_json
from qkv.evaluation.score import Score
from qkv.exams.evaluate import exam_of, taken, task_for
from qkv.predict import Model
from qkv.tasks.base import Task, Trivial
from qkv.tasks.exam import Exam, Metric

MISTAKES = 20
CLASSES = 50  # the largest confusion matrix; less frequent classes share a row
POINTS = 400  # predicted numbers to draw


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong answer.

    Attributes:
        texts: what the model read.
        answer: the model's answer.
        correct: the correct answer.
        chance: the probability that the model gave to a single answer, if it gave one.
        where: the place of the example, "file:line".
    """

    texts: tuple[str, ...]
    answer: str
    correct: str
    chance: float | None
    where: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a model's answers to some examples show.

    Attributes:
        about: which examples, in words.
        scores: each metric.
        trivial: the same metrics for answers that need no model, by the name of the answer.
        classes: precision, recall and support of each class.
        confusion: the confusion matrix, or None if there are no classes.
        lengths: the first metric for texts of each length.
        calibration: None if the answers have no probabilities.
        mistakes: the worst mistakes.
        wrong: the number of all mistakes.
        count: the number of examples.
        points: for numbers, some pairs of a correct and a predicted one.
        texts: how many texts the model reads at a time: 2 for pairs.
    """

    about: str = ""
    scores: tuple[Score, ...]
    trivial: Mapping[str, tuple[Score, ...]]
    classes: tuple[ClassRates, ...]
    confusion: Matrix | None
    lengths: tuple[LengthScore, ...]
    calibration: Reliability | None
    mistakes: tuple[Mistake, ...]
    wrong: int
    count: int
    points: tuple[tuple[float, float], ...]
    texts: int

    def to_dict(self) -> dict[str, Any]:
        """Return the study for JSON."""
        lengths = [
            {"low": one.low, "high": one.high, "scores": as_json([replace(one.score, parts={})])}
            for one in self.lengths
        ]
        return {
            "about": self.about,
            "examples": self.count,
            "scores": as_json(self.scores),
            "trivial": {name: as_json(scores) for name, scores in self.trivial.items()},
            "classes": [asdict(one) for one in self.classes],
            "confusion": self.confusion and asdict(self.confusion),
            "lengths": lengths,
            "calibration": self.calibration and asdict(self.calibration),
            "mistakes": self.wrong,
            "worst": [asdict(one) for one in self.mistakes],
        }


@system_errors()
def study(
    model: Model,
    paths: Sequence[str],
    data: DataConfig | None = None,
    progress: Callable[[int], None] | None = None,
    *,
    beam: int | None = None,
    stride: int | None = None,
    task: Task | None = None,
    ends: bool = False,
    given: Sequence[Any] | None = None,
    known: Iterable[Any] | None = None,
    mistakes: int = MISTAKES,
    about: str = "",
) -> Study:
    """Score a model and look at its answers.

    Args:
        model: any model with a head that a task can score.
        paths: files with the correct answers.
        data: how to read the files, as in `evaluate`.
        progress: called with the number of examples in each finished chunk.
        beam: the beam size of a translator; 4 if None.
        stride: for language models, as in `evaluate`.
        task: the task that scores the model. If None, it is chosen by the model's family and heads.
        ends: whether a language model also predicts the end of each document, as in training.
        given: the examples to score instead of those in `paths`.
        known: the training examples, which the trivial answers come from. If None, the scored files stand in for them.
        mistakes: how many of the worst mistakes to keep.
        about: which examples, in words.
    """
    if task is None:
        task = task_for(model).for_model(model, data)
    exam = replace(
        exam_of(model, type(task), paths, beam=beam, progress=progress, ends=ends, stride=stride), given=given
    )
    if not explains(task):
        return _Details(task, exam, {}, 0).result(taken(task, exam), about)
    if known is None:
        for path in expand(paths):
            check_rereadable(path)
    task.metrics(exam)  # raises an error if the files do not fit the model
    examples = task.examples(paths) if known is None else known
    found = _Details(task, exam, task.trivial(exam, examples, trained=known is not None), mistakes)
    return found.result(taken(task, replace(exam, watch=found.add)), about)


def explains(task: Task) -> bool:
    """Whether a task returns the answer to each example, and not just scores."""
    return type(task).predictions is not Task.predictions


def check_details(model: Model, task: Task, *, confusion: bool) -> None:
    """Raise an error if a task has no answers to single examples, or no classes for a confusion matrix."""
    if not explains(task):
        raise UsageError(
            f"this {model.family} model is scored on its texts as a whole: leave out --confusion and --errors, which "
            "need an answer to each example"
        )
    if confusion and not task.has_classes():
        raise UsageError(f"this {model.family} model predicts no classes: leave out --confusion, or use --errors")


class _Details:
    """Collects what a study shows."""

    def __init__(self, task: Task, exam: Exam, trivial: Mapping[str, Trivial], mistakes: int) -> None:
        self._trivial = trivial
        self._baselines: dict[str, list[Metric]] = {name: task.metrics(exam) for name in trivial}
        self._confusion, self._calibration = Confusion(), Calibration()
        self._lengths = ByLength(lambda: task.metrics(exam)[0])
        self._most, self._worst = mistakes, list[tuple[float, int, Prediction]]()
        self._count = self._wrong = self._texts = 0
        self._points: list[tuple[float, float]] = []

    def add(self, found: Prediction) -> None:
        """Look at one prediction."""
        self._count += 1
        self._texts = max(self._texts, len(found.texts))
        for name, metrics in self._baselines.items():
            said = self._trivial[name](found)
            for metric in metrics:
                metric.add(said, found.gold)
        self._confusion.add(found.items)
        for one in found.confidences:
            self._calibration.add(one)
        if found.length:
            self._lengths.add(found.length, found.said, found.gold)
        if isinstance(found.gold, float) and isinstance(found.said, float) and len(self._points) < POINTS:
            self._points.append((found.gold, found.said))
        if found.fault > 0:
            self._wrong += 1
            heapq.heappush(self._worst, (found.fault, -self._count, found))  # of equals, the first example stays
            if len(self._worst) > self._most:
                heapq.heappop(self._worst)

    def result(self, scores: Sequence[Score], about: str) -> Study:
        """Return the study."""
        worst = (found for _, _, found in sorted(self._worst, key=lambda one: one[:2], reverse=True))
        baselines = {name: tuple(m.result() for m in metrics) for name, metrics in self._baselines.items()}
        return Study(
            about=about,
            scores=tuple(scores),
            trivial=baselines if self._count else {},
            classes=self._confusion.classes(),
            confusion=self._confusion.matrix(CLASSES),
            lengths=self._lengths.result(),
            calibration=self._calibration.result(),
            mistakes=tuple(_mistake(found) for found in worst),
            wrong=self._wrong,
            count=self._count or max((score.count for score in scores), default=0),
            points=tuple(self._points),
            texts=self._texts,
        )


def _mistake(found: Prediction) -> Mistake:
    chance = found.confidences[0].chance if len(found.confidences) == 1 else None
    return Mistake(texts=found.texts, answer=found.answer, correct=found.correct, chance=chance, where=found.where)
