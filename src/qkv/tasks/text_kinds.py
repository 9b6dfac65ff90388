"""The kinds of tasks that can be written as text: what the model reads, what it should say, and how that is scored.

Each kind borrows reading, columns and held-out keys from the task with a head of its own, and is scored by the same
metrics, so that the two can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from statistics import fmean
from typing import Any, ClassVar

from qkv.checkpoints.text_tasks import TextTask
from qkv.common.errors import UsageError, unknown
from qkv.data.bad_rows import BadRow
from qkv.data.examples import Classified, Parallel, Question, Rated
from qkv.evaluation.answers import AnswerF1, ExactMatch, answer_f1
from qkv.evaluation.classification import F1, Accuracy, Matthews
from qkv.evaluation.correlation import MeanSquaredError, Pearson, Spearman
from qkv.evaluation.invalid import Farthest, Invalid
from qkv.evaluation.prediction import Item
from qkv.evaluation.translation import Bleu, Chrf, sentence_chrf
from qkv.tasks.answer import NO_ANSWER, AnswerTask
from qkv.tasks.base import Say, Task, Trivial
from qkv.tasks.classify import ClassifyTask
from qkv.tasks.exam import Metric
from qkv.tasks.predicted import always
from qkv.tasks.regress import RegressTask
from qkv.tasks.translate import TranslateTask

NO_WORDS = "(no words)"


class TextKind:
    """One kind of task as text."""

    reader: ClassVar[type[Task]]  # the task that reads its files
    between: ClassVar[str] = ""  # stands between two texts, if the recipe does not say
    cuts: ClassVar[bool] = False  # in training, a source that is too long is cut; otherwise it is left out
    searches: ClassVar[bool] = True  # answers are sentences, which a beam finds better; not one of a few labels

    def texts(self, example: Any) -> Sequence[str]:
        """Return the text, or two."""
        raise NotImplementedError

    def answer(self, example: Any, task: TextTask) -> str:
        """Return what the model should say."""
        raise NotImplementedError

    def survey(self, reader: Task, examples: Iterable[Any], labels: Mapping[str, str], say: Say) -> Mapping[str, Any]:
        """Return more fields of the `TextTask` from the training examples and the recipe's `labels`."""
        del reader, examples, say
        if labels:
            raise UsageError("objective.labels is for objective.kind=classify: leave it out")
        return {}

    def check(self, example: Any, task: TextTask) -> None:
        """Raise `BadRow` for an example that the model cannot be scored on."""

    def metrics(self, task: TextTask) -> list[Metric]:
        """Return the metrics, the most important one first."""
        raise NotImplementedError

    def prediction(self, said: str, example: Any, task: TextTask) -> dict[str, Any]:
        """Return the fields of the `Prediction` that follow from the model's words."""
        raise NotImplementedError

    def trivial(self, known: Iterable[Any], task: TextTask) -> dict[str, Trivial]:
        """Return the answers that need no model."""
        del known, task
        return {}


class TranslateText(TextKind):
    """Translation: the answer is the other side."""

    reader: ClassVar[type[Task]] = TranslateTask

    def texts(self, example: Parallel) -> Sequence[str]:
        """Return the source."""
        return (example.source,)

    def answer(self, example: Parallel, task: TextTask) -> str:
        """Return the target."""
        del task
        return example.target

    def metrics(self, task: TextTask) -> list[Metric]:
        """Return BLEU and chrF."""
        del task
        return [Bleu(), Bleu(lowercase=True), Chrf()]

    def prediction(self, said: str, example: Parallel, task: TextTask) -> dict[str, Any]:
        """The lower the chrF of a translation, the worse it is."""
        del task
        right = example.target
        fault = 1 - sentence_chrf(said, right) / 100
        return {"said": said, "gold": [right], "answer": said, "correct": right, "fault": fault}

    def trivial(self, known: Iterable[Parallel], task: TextTask) -> dict[str, Trivial]:
        """Copy the source."""
        del known, task
        return {"the source, copied": lambda answered: answered.texts[0]}


class ClassifyText(TextKind):
    """Classification: the answer is the name of a class. Other words count as wrong."""

    reader: ClassVar[type[Task]] = ClassifyTask
    between: ClassVar[str] = " sentence2: "
    cuts: ClassVar[bool] = True
    searches: ClassVar[bool] = False

    def texts(self, example: Classified) -> Sequence[str]:
        """Return the text or the pair."""
        return (example.text,) if example.second is None else (example.text, example.second)

    def answer(self, example: Classified, task: TextTask) -> str:
        """Return what stands for the label."""
        return task.labels.get(example.labels[0], example.labels[0])

    def survey(
        self, reader: Task, examples: Iterable[Classified], labels: Mapping[str, str], say: Say
    ) -> Mapping[str, Any]:
        """Find the labels; each needs an answer of its own."""
        names = reader.survey(examples, say)["labels"]
        if other := labels.keys() - set(names):
            raise unknown("label in objective.labels", min(other), names)
        answers = {name: labels.get(name, name) for name in names}
        said = sorted(answers.values())
        if same := next((one for one, two in pairwise(said) if one == two), None):
            raise UsageError(f"objective.labels: two labels have the answer {same!r}")
        return {"labels": answers}

    def check(self, example: Classified, task: TextTask) -> None:
        """A label must be one of training, since the model could never say another."""
        if len(example.labels) != 1:
            raise BadRow(f"{len(example.labels)} labels instead of one: leave out data.separator")
        if example.labels[0] not in task.labels:
            raise BadRow(str(unknown("label", example.labels[0], task.labels)))

    def metrics(self, task: TextTask) -> list[Metric]:
        """Return accuracy, F1, Matthews' coefficient, and the share of answers that are no label."""
        del task
        return [Accuracy(), F1(average="macro"), Matthews(), Invalid()]

    def prediction(self, said: str, example: Classified, task: TextTask) -> dict[str, Any]:
        """An answer that is no label is the worst mistake."""
        right = self.answer(example, task)
        words = " ".join(said.split())
        found = words if words in task.labels.values() else None
        fault = float(found != right) + (found is None)
        return {
            "said": found,
            "gold": right,
            "answer": words or NO_WORDS,
            "correct": right,
            "fault": fault,
            "items": (Item(found, right),),
        }

    def trivial(self, known: Iterable[Classified], task: TextTask) -> dict[str, Trivial]:
        """Always say the most frequent class."""
        return always(self.answer(example, task) for example in known)


class RegressText(TextKind):
    """Numbers: the answer is the number, rounded to a step, as digits (Raffel et al. 2020, section 2.4)."""

    reader: ClassVar[type[Task]] = RegressTask
    between: ClassVar[str] = " sentence2: "
    cuts: ClassVar[bool] = True
    searches: ClassVar[bool] = False

    def texts(self, example: Rated) -> Sequence[str]:
        """Return the text or the pair."""
        return (example.text,) if example.second is None else (example.text, example.second)

    def answer(self, example: Rated, task: TextTask) -> str:
        """Return the rounded number."""
        return rounded(example.score, task.step)

    def survey(self, reader: Task, examples: Iterable[Rated], labels: Mapping[str, str], say: Say) -> Mapping[str, Any]:
        """Find the smallest and the largest number."""
        super().survey(reader, examples, labels, say)
        numbers = [float(example.score) for example in examples]
        if not numbers:
            raise UsageError("there are no training examples with a number")
        return {"low": min(numbers), "high": max(numbers)}

    def metrics(self, task: TextTask) -> list[Metric]:
        """Return correlations, the error, and the share of answers that are no number."""
        numbers = (Pearson(), Spearman(), MeanSquaredError())
        return [*(Farthest(metric, task.low, task.high) for metric in numbers), Invalid()]

    def prediction(self, said: str, example: Rated, task: TextTask) -> dict[str, Any]:
        """An answer that is no number is the worst mistake."""
        gold, found = float(example.score), number(said)
        # From 0 to 1, as that of other kinds, so that the mistakes of a model with several tasks can be compared.
        fault = min(1.0, abs(found - gold) / (task.high - task.low or 1.0)) if found is not None else 2.0
        return {"said": found, "gold": gold, "answer": said or NO_WORDS, "correct": f"{gold:.4g}", "fault": fault}

    def trivial(self, known: Iterable[Rated], task: TextTask) -> dict[str, Trivial]:
        """Always say the mean."""
        del task
        numbers = [float(example.score) for example in known]
        mean = fmean(numbers) if numbers else 0.0
        return {f"always the mean, {mean:.4g}": lambda _: mean}


class AnswerText(TextKind):
    """Questions about a context: the answer is a part of it, or nothing."""

    reader: ClassVar[type[Task]] = AnswerTask
    between: ClassVar[str] = " context: "

    def texts(self, example: Question) -> Sequence[str]:
        """Return the question and its context."""
        return example.question, example.context

    def answer(self, example: Question, task: TextTask) -> str:
        """Return the first answer, or no words if there is none."""
        del task
        return example.answers[0].text if example.answers else ""

    def metrics(self, task: TextTask) -> list[Metric]:
        """Return exact match and F1."""
        del task
        return [ExactMatch(), AnswerF1()]

    def prediction(self, said: str, example: Question, task: TextTask) -> dict[str, Any]:
        """The fewer words are right, the worse."""
        del task
        golds = [answer.text for answer in example.answers]
        correct = " / ".join(dict.fromkeys(golds)) or NO_ANSWER
        fault = 1 - answer_f1(said, golds)
        return {"said": said, "gold": golds, "answer": said or NO_ANSWER, "correct": correct, "fault": fault}


TEXT_KINDS: dict[str, TextKind] = {
    "translate": TranslateText(),
    "classify": ClassifyText(),
    "regress": RegressText(),
    "answer": AnswerText(),
}


def rounded(value: float, step: float) -> str:
    """Write a number rounded to a multiple of `step`, with as many decimals as the step has: 2.57 by 0.2 is 2.6."""
    decimals = max(0, -int(Decimal(repr(step)).normalize().as_tuple().exponent))
    return f"{round(value / step) * step + 0.0:.{decimals}f}"


def number(said: str) -> float | None:
    """Return the number that some words are, or None."""
    try:
        found = float(said)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
