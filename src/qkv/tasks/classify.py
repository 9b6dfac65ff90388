"""Classification: a class, or any number of classes, for each text or pair of texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from torch import nn

from qkv.checkpoints.folder import Folder
from qkv.common.batch import Labelled
from qkv.common.errors import QkvError, UsageError, unknown
from qkv.data.bad_rows import BadRow, BadRows, sift
from qkv.data.examples import Classified
from qkv.data.files import expand
from qkv.data.label_hints import label_hint
from qkv.data.labelled import classified, has_label_lists, sort_labels
from qkv.data.store import Store
from qkv.evaluation.classification import F1, Accuracy, Matthews, MultiLabelF1
from qkv.evaluation.prediction import Prediction
from qkv.objectives.classify import Classify, ClassifyAny
from qkv.tasks import finetuning
from qkv.tasks.base import Array, Collate, Context, Row, Say, Trivial, has_head
from qkv.tasks.batches import CHUNK, column, gathered, known_only, tokens_of
from qkv.tasks.bpe_dropout import check_bpe_dropout, drops, resplit, text_bytes
from qkv.tasks.class_rates import check_biases, match_rates
from qkv.tasks.exam import Exam, Metric, chunks
from qkv.tasks.facts import Rule
from qkv.tasks.predicted import always, label_prediction, labels_prediction
from qkv.tasks.text_table import TextTableTask, columns

SHOWN = 10  # number of classes to show
LISTED = ","  # the separator of labels that are lists already


class ClassifyTask(TextTableTask):
    """One class per example, or any number of classes if the recipe sets a separator."""

    distilled_by: ClassVar[str] = "classify"
    rules: ClassVar[Mapping[str, Rule]] = {
        **finetuning.rules(lr=1.2e-4),
        "train.balance": finetuning.balance,
    }
    measured: ClassVar[bool] = True
    predicts_classes: ClassVar[bool] = True
    Settings: ClassVar[type[Any]] = Classify
    heads: ClassVar[tuple[str, ...]] = ("pool", "classify")
    optional_keys: ClassVar[frozenset[str]] = frozenset(
        {"data.separator", "data.dropout", "train.balance", "train.match_rates"}
    )
    held_out_unit: ClassVar[str] = "training examples of each class"

    @property
    def multi_label(self) -> bool:
        """Whether an example can have any number of classes."""
        return bool(self.data.separator)

    def allows(self, key: str) -> bool:
        """Classes can only be balanced, and their rates matched, if each example has one class."""
        return super().allows(key) and not (key.startswith("train.") and self.multi_label)

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Classified]:
        """Read texts and classes; without a separator, an example has exactly one class."""
        reading: dict[str, Any] = {"bad": self.data.bad, "skipped": skipped}
        separator = self.data.separator or None
        found = classified(list(paths), labels_separator=separator, **columns(self.data), **reading)
        return found if separator else sift(((example.where, example) for example in found), _single, **reading)

    def resolved(self, say: Say) -> Self:
        """Detect columns, and whether the labels are lists of several labels."""
        task = super().resolved(say)
        path = expand(task.data.train)[0]
        if task.multi_label or not has_label_lists(path, **columns(task.data)):
            return task
        say(f"{path}: labels are lists, so an example can have several (data.separator={LISTED})")
        return replace(task, data=replace(task.data, separator=LISTED))

    def stratum(self, example: Classified) -> str:
        """Stratify by the first label, since complete sets of labels are rarely equal."""
        return "".join(example.labels[:1])

    def survey(self, examples: Iterable[Classified], say: Say) -> dict[str, Any]:
        """Collect the classes of the training examples; report imbalanced ones, and labels that may be no classes."""
        counts = Counter(label for example in examples for label in example.labels)
        if len(counts) < 2:
            files, found = ", ".join(self.data.train), ", ".join(counts) or "none"
            raise QkvError(f"{files}: at least two classes are needed, found {found}; is data.label the right column?")
        if hint := label_hint(counts, multi_label=self.multi_label):
            say(hint)
        if found := uneven(counts, multi_label=self.multi_label):
            say(found)
        labels = tuple(sort_labels(counts))
        return {"labels": labels, "counts": tuple(counts[label] for label in labels)}

    def check_model(self, model: nn.Module, context: Context) -> None:
        """Matching class rates needs a classifier with biases."""
        super().check_model(model, context)
        if "train.match_rates" in context.options:
            if self.multi_label:
                raise UsageError(
                    "train.match_rates is for one label per example, but the labels are lists: leave it out"
                )
            check_biases(model)

    def folder_facts(self, context: Context) -> dict[str, Any]:
        """Return the labels, and whether an example can have several."""
        return super().folder_facts(context) | {"multi_label": self.multi_label}

    def rows(self, examples: Iterable[Classified], context: Context) -> Iterator[Row]:
        """Tokenise texts and number the classes; a class that does not occur in training makes a bad row."""
        number = {label: i for i, label in enumerate(context.labels)}
        keeps = check_bpe_dropout(self.data.dropout, context)
        known = known_only(examples, "label", lambda example: example.labels, context, self.data.bad)
        for chunk in chunks(known, CHUNK):
            for example, row in zip(chunk, self.encoded(chunk, context), strict=True):
                each = [int(label in example.labels) for label in context.labels]
                if keeps:
                    row["ids_text"] = _single_text(example)
                yield row | {"label": each if self.multi_label else number[example.labels[0]]}

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather texts and classes."""
        again = drops(store, self.data.dropout)

        def make(rows: Array, rng: np.random.Generator) -> Labelled:
            labels = column(store, "label", rows)
            texts = tokens_of(*resplit(store, "ids", rows, context, self.data, rng)) if again else gathered(store, rows)
            return Labelled(texts, labels.view(len(rows), -1) if self.multi_label else labels)

        return make

    def objective(self) -> Classify | ClassifyAny:
        """Return cross-entropy over the classes, or binary cross-entropy for each class."""
        if not self.multi_label:
            return self.settings
        if self.settings != Classify():
            raise UsageError("the keys of [objective] are for single-label data: leave them out with data.separator")
        return ClassifyAny()

    def objective_for(self, context: Context) -> Any:
        """With train.balance, rare classes count more; the mean weight of an example is 1."""
        found = self.objective()
        if not isinstance(found, Classify):
            return found
        if found.class_weights and len(found.class_weights) != len(context.labels):
            got = f"objective.class_weights has {len(found.class_weights)} numbers"
            raise UsageError(f"{got}, but there are {len(context.labels)} classes ({', '.join(context.labels)})")
        if found.class_weights or "train.balance" not in context.options:
            return found
        return replace(found, class_weights=balanced(context.facts["counts"]))

    def after_training(self, found: Folder, model: Any, context: Context, train: Store, valid: Store) -> Folder | None:
        """With train.match_rates, make the model predict each class as often as it occurs in training."""
        if "train.match_rates" not in context.options:
            return None
        return match_rates(found, model, context, train, valid)

    def blank(self, text: str, second: str | None, where: str) -> Classified:
        """Return an example without a label."""
        return Classified(text, second, (), where)

    def answered(self, examples: Sequence[Any], model: Any, labels: Sequence[str]) -> Iterator[Classified]:
        """Classify each text, with the model's own threshold if it gives any number of labels."""
        names = dict(zip(model.label_names, labels or model.label_names, strict=True))
        for example, found in zip(examples, self.said(model, examples), strict=True):
            several = found if model.multi_label else [found]
            yield replace(example, labels=tuple(names[label.label] for label in several))

    def answered_changes(self, model: Any) -> dict[str, Any]:
        """Labels are lists if the model gives any number of them."""
        return {"data.separator": LISTED} if model.multi_label and not self.multi_label else {}

    def answer(self, example: Classified) -> Any:
        """Return the label, or a list of labels."""
        return list(example.labels) if self.multi_label else "".join(example.labels[:1])

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model is a text classifier."""
        return not model.reads_images and has_head(model, "classify")

    def metrics(self, exam: Exam) -> list[Metric]:
        """Score one class per text, or any number of classes, depending on how the model was trained."""
        several = exam.model.multi_label
        if several and not self._reader(exam).multi_label:
            where = expand(exam.paths)[0] if exam.paths else "the examples"
            raise UsageError(f"{where}: this model predicts several labels; name their separator: data.separator=,")
        if self.multi_label and not several:
            raise UsageError(f"this model predicts one label: leave out data.separator={self.data.separator}")
        if several:
            return [MultiLabelF1(average="micro"), MultiLabelF1(average="macro"), Accuracy(name="exact-match")]
        return [Accuracy(), F1(average="macro"), Matthews()]

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Classify each text."""
        examples = exam.examples(self._reader(exam))
        for example, found in self.classified(exam, self._named(exam, examples, exam.skipped)):
            known: dict[str, Any] = {"texts": tuple(self.texts(example)), "where": example.where}
            if exam.model.multi_label:
                yield labels_prediction({label.label for label in found}, set(example.labels), **known)
            else:
                yield label_prediction(found.label, found.score, example.labels[0], **known)

    def trivial(self, exam: Exam, known: Iterable[Classified], *, trained: bool) -> dict[str, Trivial]:
        """Always predict the most frequent class."""
        del trained
        labels = (label for example in self._named(exam, known, BadRows()) for label in example.labels)
        return always(labels, several=exam.model.multi_label)

    def _reader(self, exam: Exam) -> Self:
        """Return the task that reads the labels of an exam: lists of labels need no separator."""
        if not exam.model.multi_label or self.multi_label or not exam.paths:
            return self
        listed = has_label_lists(expand(exam.paths)[0], **columns(self.data))
        return replace(self, data=replace(self.data, separator=LISTED)) if listed else self

    def _named(self, exam: Exam, examples: Iterable[Classified], skipped: BadRows) -> Iterator[Classified]:
        """Yield the examples whose labels the model knows; it could never predict any others.

        Unnamed classes are called LABEL_0 and so on, and match the class numbers 0 and so on in a file.
        """
        names = exam.model.label_names

        def named(_: str, example: Classified) -> Classified:
            found = tuple(label if label in names else f"LABEL_{label}" for label in example.labels)
            for label, name in zip(example.labels, found, strict=True):
                if name not in names:
                    raise BadRow(str(unknown("label", label, names)))
            return replace(example, labels=found)

        return sift(((example.where, example) for example in examples), named, self.data.bad, skipped)


def balanced(counts: Sequence[int]) -> tuple[float, ...]:
    """Return a weight for each class that is proportional to 1 / √(its examples)."""
    scale = sum(counts) / sum(math.sqrt(count) for count in counts)
    return tuple(scale / math.sqrt(max(1, count)) for count in counts)  # none for a class that only a teacher knows


def uneven(counts: Counter[str], *, multi_label: bool) -> str:
    """Return a line with the number of examples of each class, or an empty string if the classes are balanced."""
    ranked = counts.most_common()
    if not ranked or ranked[0][1] < finetuning.UNEVEN * ranked[-1][1]:
        return ""
    shown = ranked if len(ranked) <= SHOWN else [*ranked[: SHOWN - 1], ranked[-1]]
    left = "" if len(ranked) <= SHOWN else f" ({len(ranked) - SHOWN} more in between)"
    found = f"imbalanced classes: {', '.join(f'{name} {count}' for name, count in shown)}{left}"
    if multi_label:
        return found
    name, most = ranked[0]
    share = most / counts.total()
    return f"{found}; always predicting {name!r} is {share:.0%} accurate, so compare with that or look at F1"


def _single(where: str, example: Classified) -> Classified:
    del where
    if len(example.labels) != 1:
        got = "no label" if not example.labels else f"{len(example.labels)} labels"
        raise BadRow(f"{got} instead of one (if an example can have several, set data.separator)")
    return example


def _single_text(example: Classified) -> Array:
    """Return a text that is tokenised again each time; pairs are not supported."""
    if example.second is not None:
        raise QkvError(f"{example.where}: data.dropout is for single texts, but this is a pair: set data.dropout=0")
    return text_bytes(example.text)
