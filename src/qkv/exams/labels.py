"""Exams with one answer for each example: classes and numbers of texts, classes of images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from qkv.common.errors import UsageError, unknown
from qkv.data.bad_rows import BadRow, sift
from qkv.data.examples import Classified
from qkv.evaluation.classification import F1, Accuracy, Matthews, MultiLabelF1
from qkv.evaluation.correlation import MeanSquaredError, Pearson, Spearman
from qkv.evaluation.score import Score
from qkv.exams.exam import Exam, graded
from qkv.predict.verbs import names_of
from qkv.tasks.classify import ClassifyTask, RegressTask
from qkv.tasks.image import fitting, scaled

PICTURES = 64  # that are answered at a time


def classes(exam: Exam) -> list[Score]:
    """Score classes: one for each text, or any number of them, as the model was trained to give."""
    multi_label, separator = exam.model.multi_label, exam.data.separator
    if multi_label and not separator:
        raise UsageError("this model gives any number of labels: say what divides them, such as --set separator=,")
    if separator and not multi_label:
        raise UsageError(f"this model gives one label: leave out the separator {separator!r}, which is for several")
    return _sets(exam) if multi_label else _singles(exam)


def _singles(exam: Exam) -> list[Score]:
    said = ((label.label, example.labels[0]) for example, label in _said(exam, _known(exam)))
    return graded([Accuracy(), F1(average="macro"), Matthews()], said)


def _sets(exam: Exam) -> list[Score]:
    """Any number of classes for each example: those that the model holds for likely enough."""
    found = _said(exam, _known(exam))
    said = (({label.label for label in labels}, set(example.labels)) for example, labels in found)
    return graded([MultiLabelF1(average="micro"), MultiLabelF1(average="macro"), Accuracy(name="exact-match")], said)


def _known(exam: Exam) -> Iterator[Classified]:
    """Give the examples whose labels the model knows; one that it cannot give would count as its mistake.

    Classes that nobody named are called LABEL_0 and so on; a file that numbers its classes means those.
    """
    names = names_of(exam.model)

    def named(_: str, example: Classified) -> Classified:
        found = tuple(label if label in names else f"LABEL_{label}" for label in example.labels)
        for label, name in zip(example.labels, found, strict=True):
            if name not in names:
                raise BadRow(str(unknown("label", label, names)))
        return replace(example, labels=found)

    examples = ClassifyTask().examples(exam.paths, exam.data, skipped=exam.skipped)
    return sift(((example.where, example) for example in examples), named, **exam.reading)


def numbers(exam: Exam) -> list[Score]:
    """Score a number for each text."""
    found = _said(exam, RegressTask().examples(exam.paths, exam.data, skipped=exam.skipped))
    said = ((score, example.score) for example, score in found)
    return graded([Pearson(), Spearman(), MeanSquaredError()], said)


def _said(exam: Exam, examples: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Classify texts, or pairs of texts, as they stream by."""
    for chunk in exam.chunks(examples):
        second = None if any(example.second is None for example in chunk) else [example.second for example in chunk]
        yield from zip(chunk, exam.model.classify([example.text for example in chunk], second), strict=True)


def images(exam: Exam) -> list[Score]:
    """Score a class for each image; pixels are scaled as in training."""
    return graded([Accuracy(), F1(average="macro")], _pictures(exam))


def _pictures(exam: Exam) -> Iterator[tuple[str, str]]:
    model = exam.model
    names = model.labels or tuple(str(number) for number in range(model.config.num_labels))
    head = "classify" if "classify" in model.config.heads else "distilled"
    for chunk in exam.chunks(fitting(exam.paths, model.config, names, **exam.reading), PICTURES):
        found = model.logits(scaled(np.stack([example.pixels for example in chunk])), head=head)
        yield from ((names[int(s.argmax())], example.label) for s, example in zip(found, chunk, strict=True))
