"""Exams with one answer for each example: classes and numbers of texts, classes of pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from torch import Tensor

from qkv.common.errors import UsageError, unknown
from qkv.data.examples import Classified
from qkv.evaluation.classification import F1, Accuracy, Matthews, MultiLabelF1
from qkv.evaluation.correlation import MeanSquaredError, Pearson, Spearman
from qkv.evaluation.score import Score
from qkv.recipes.exam import Exam, graded
from qkv.training.tasks.classify import ClassifyTask, RegressTask
from qkv.training.tasks.picture import fitting, scaled

PICTURES = 64  # that are answered at a time


def classes(exam: Exam) -> list[Score]:
    """Score classes: one for each text, or any number of them, as the model was trained to give."""
    several, separator = exam.model.several, exam.data.separator
    if several and not separator:
        raise UsageError("this model gives any number of labels: say what divides them, such as --set separator=,")
    if separator and not several:
        raise UsageError(f"this model gives one label: leave out the separator {separator!r}, which is for several")
    return _sets(exam) if several else _singles(exam)


def _singles(exam: Exam) -> list[Score]:
    names = _names(exam)
    found = _scored(exam, ClassifyTask().examples(exam.paths, exam.data, skipped=exam.skipped), "classify")
    said = ((names[int(scores.argmax())], _known(example, names)[0]) for example, scores in found)
    return graded([Accuracy(), F1(average="macro"), Matthews()], said)


def _sets(exam: Exam) -> list[Score]:
    """Any number of classes for each example: those that the model holds for more likely than not."""
    names = _names(exam)
    found = _scored(exam, ClassifyTask().examples(exam.paths, exam.data, skipped=exam.skipped), "classify")
    said = ((_likely(names, scores), set(_known(example, names))) for example, scores in found)
    return graded([MultiLabelF1(average="micro"), MultiLabelF1(average="macro"), Accuracy(name="exact-match")], said)


def _likely(names: tuple[str, ...], scores: Tensor) -> set[str]:
    return {name for name, score in zip(names, scores.tolist(), strict=True) if score > 0}


def _names(exam: Exam) -> tuple[str, ...]:
    return exam.model.labels or tuple(str(number) for number in range(exam.model.config.num_labels))


def _known(example: Classified, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels of an example; one that the model cannot give would count as its mistake."""
    for label in example.labels:
        if label not in names:
            raise UsageError(f"{example.where}: {unknown('label', label, names)}")
    return example.labels


def numbers(exam: Exam) -> list[Score]:
    """Score a number for each text."""
    found = _scored(exam, RegressTask().examples(exam.paths, exam.data, skipped=exam.skipped), "regress")
    said = ((float(score), example.score) for example, score in found)
    return graded([Pearson(), Spearman(), MeanSquaredError()], said)


def _scored(exam: Exam, examples: Iterable[Any], head: str) -> Iterator[tuple[Any, Tensor]]:
    """Score texts, or pairs of texts, as they stream by."""
    for chunk in exam.chunks(examples):
        second = None if any(example.second is None for example in chunk) else [example.second for example in chunk]
        encoded = exam.model.encode([example.text for example in chunk], second)
        yield from zip(chunk, exam.model.logits(encoded.ids, segments=encoded.segments, head=head), strict=True)


def pictures(exam: Exam) -> list[Score]:
    """Score a class for each picture; pixels are scaled as in training."""
    return graded([Accuracy(), F1(average="macro")], _pictures(exam))


def _pictures(exam: Exam) -> Iterator[tuple[str, str]]:
    model, names = exam.model, _names(exam)
    head = "classify" if "classify" in model.config.heads else "distilled"
    for chunk in exam.chunks(fitting(exam.paths, model.config, names, **exam.reading), PICTURES):
        found = model.logits(scaled(np.stack([example.pixels for example in chunk])), head=head)
        yield from ((names[int(s.argmax())], example.label) for s, example in zip(found, chunk, strict=True))
