"""`qkv evaluate MODEL DATA`: the metrics that fit the model's head, as the data streams by."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from qkv.common.errors import UsageError, system_errors
from qkv.data.config import DataConfig
from qkv.evaluation.score import Score
from qkv.exams import labels as exam_labels
from qkv.exams import texts as exam_texts
from qkv.exams.exam import Exam
from qkv.predict import Model
from qkv.predict.translate import BEAM

Evaluator = Callable[[Exam], list[Score]]

BY_HEAD: dict[str, Evaluator] = {
    "classify": exam_labels.classes,
    "regress": exam_labels.numbers,
    "tag": exam_texts.tags,
    "span": exam_texts.answers,
    "lm": exam_texts.language,
    "context": exam_texts.words,
}


@system_errors()
def evaluate(
    model: Model,
    paths: Sequence[str],
    data: DataConfig | None = None,
    progress: Callable[[int], None] | None = None,
    *,
    beam: int | None = None,
) -> list[Score]:
    """Score a model on files.

    Args:
        model: any model with a head that has an evaluation.
        paths: files with the right answers.
        data: how they are read; with `skip_bad`, rows that cannot be used are counted in a warning.
        progress: told how many examples are done.
        beam: hypotheses that a translator keeps side by side, 4 if not given.
    """
    asks = evaluator_of(model)
    if beam is not None and asks is not exam_texts.translations:
        raise UsageError(f"a beam is for translators, and this {model.family} is none: leave it out")
    exam = Exam(model, paths, data or DataConfig(), BEAM if beam is None else beam, progress or (lambda _: None))
    scores = asks(exam)
    if exam.skipped.count:
        warnings.warn(str(exam.skipped), stacklevel=2)
    return scores


def evaluator_of(model: Model) -> Evaluator:
    """Choose by the head."""
    heads = set(getattr(model.config, "heads", ()))
    if getattr(model.module, "decoder", None) is not None and "lm" in heads:
        return exam_texts.translations
    if model.family == "vit" and heads & {"classify", "distilled"}:
        return exam_labels.images
    for head, evaluator in BY_HEAD.items():
        if head in heads:
            return evaluator
    raise UsageError(f"no evaluation for a model with the heads {', '.join(sorted(heads)) or 'none'}")
