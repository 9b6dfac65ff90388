"""`qkv evaluate MODEL DATA`: score a model with the task that fits its heads; the data is streamed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from qkv.common.errors import UsageError, system_errors
from qkv.data.config import DataConfig
from qkv.evaluation.score import Score
from qkv.predict import Model
from qkv.predict.translate import BEAM
from qkv.tasks.base import Task
from qkv.tasks.exam import Exam
from qkv.tasks.table import TASKS


@system_errors()
def evaluate(
    model: Model,
    paths: Sequence[str],
    data: DataConfig | None = None,
    progress: Callable[[int], None] | None = None,
    *,
    beam: int | None = None,
    task: type[Task] | Task | None = None,
    ends: bool = False,
    stride: int | None = None,
) -> list[Score]:
    """Score a model on files.

    Args:
        model: any model with a head that a task can score.
        paths: files with the correct answers.
        data: how to read the files. With `skip_bad`, a warning counts the rows that cannot be used. A language model
            reads windows of `short` or, if it is 0, `max_length` tokens; without `data`, windows as long as it allows.
        progress: called with the number of examples in each finished chunk.
        beam: the beam size of a translator; 4 if None.
        task: the task that scores the model. If None, it is chosen by the model's family and heads.
        ends: whether a language model also predicts the end of each document, as in training.
        stride: for language models, how far windows slide along each document, in tokens. The smaller, the more each
            token sees of the text before it, and the longer it takes. None for windows that do not overlap.
    """
    tester = task if isinstance(task, Task) else (task or task_for(model)).for_model(model, data)
    exam = exam_of(model, type(tester), paths, beam=beam, progress=progress, ends=ends, stride=stride)
    return taken(tester, exam)


def exam_of(
    model: Model,
    task: type[Task],
    paths: Sequence[str],
    *,
    beam: int | None = None,
    progress: Any = None,
    ends: bool,
    stride: int | None = None,
) -> Exam:
    """Return the exam of a model; the arguments are those of `evaluate`."""
    if beam is not None and not task.decodes:
        raise UsageError(f"beam is for translators, and this {model.family} model is not one: leave it out")
    if stride is not None and not task.slides:
        raise UsageError(f"stride is for the perplexity of language models, and this {model.family} model is not one")
    if stride is not None and stride < 1:
        raise UsageError(f"the stride must be at least 1, got {stride}")
    found = Exam(model, paths, BEAM if beam is None else beam, progress or (lambda _: None), ends)
    return replace(found, stride=stride or 0)


def taken(task: Task, exam: Exam) -> list[Score]:
    """Score a model; a warning counts the rows that cannot be used."""
    scores = task.score(exam)
    if exam.skipped.count:
        warnings.warn(str(exam.skipped), stacklevel=3)
    return scores


def task_for(model: Model) -> type[Task]:
    """Find the task that scores a model."""
    for task in TASKS.values():
        if task.can_score(model):
            return task
    heads = ", ".join(sorted(getattr(model.config, "heads", ()))) or "none"
    raise UsageError(f"no task can evaluate a model with the heads {heads}")
