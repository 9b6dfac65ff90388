"""Extractive question answering: find the answer span in a context. Long contexts become overlapping windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from qkv.checkpoints.folder import Folder
from qkv.common.batch import Spans
from qkv.common.progress import Bar
from qkv.data.bad_rows import BadRows
from qkv.data.config import DataConfig
from qkv.data.examples import Answer, Question
from qkv.data.questions import questions
from qkv.data.store import Store
from qkv.evaluation.answers import AnswerF1, ExactMatch, answer_f1, best_threshold
from qkv.evaluation.prediction import Confidence, Prediction
from qkv.objectives.span import AnswerSpan
from qkv.tasks import finetuning
from qkv.tasks.base import Array, Collate, Context, Row, Say, Task, Trivial, has_head
from qkv.tasks.batches import column, gathered, limit_of
from qkv.tasks.exam import Exam, Metric, chunks
from qkv.tasks.facts import Rule
from qkv.tasks.split import validation_examples
from qkv.tokenizers.questions import question_windows
from qkv.tokenizers.windows import Window

CHUNK = 200  # questions tokenised at a time
ANSWERED = 64  # questions answered at a time
NO_ANSWER = "(no answer)"


class AnswerTask(Task):
    """The target of a window is the answer span, or the first token if the window does not hold the whole answer."""

    distilled_by: ClassVar[str] = "answer"
    rules: ClassVar[Mapping[str, Rule]] = finetuning.rules(lr=1e-4)
    measured: ClassVar[bool] = True
    Settings: ClassVar[type[Any]] = AnswerSpan
    heads: ClassVar[tuple[str, ...]] = ("span",)
    keeps_length: ClassVar[bool] = True
    starts_from_encoder: ClassVar[bool] = True
    held_out_unit: ClassVar[str] = "contexts, with all of their questions,"

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Question]:
        """Read questions."""
        return questions(list(paths), encoding=self.data.encoding, bad=self.data.bad, skipped=skipped)

    def texts(self, example: Question) -> Iterable[str]:
        """Return the question and its context."""
        return example.question, example.context

    def key(self, example: Question) -> str:
        """Hold out by context, so that no validation context occurs in training."""
        return example.context

    def survey(self, examples: Iterable[Question], say: Say) -> dict[str, Any]:
        """Check whether some questions have no answer."""
        del say
        return {"no_answer": any(not example.answers for example in examples)}

    def folder_facts(self, context: Context) -> dict[str, Any]:
        """Whether the model may return an empty answer."""
        return {"no_answer": context.facts["no_answer"]}

    def rows(self, examples: Iterable[Question], context: Context) -> Iterator[Row]:
        """Tokenise each question together with each window of its context."""
        limit, shortened = limit_of(context, self.data.max_length), 0
        for chunk in chunks(examples, CHUNK):
            questions, contexts = [example.question for example in chunk], [example.context for example in chunk]
            windows, cut = question_windows(context.text, questions, contexts, limit)
            shortened += len(cut)
            for example, found in zip(chunk, windows, strict=True):
                for window in found:
                    start, end = place(window, example.answers[0]) if example.answers else (0, 0)
                    segments = {"segments": window.segments} if context.num_segments > 1 else {}
                    yield {"ids": window.ids, **segments, "start": start, "end": end}
        if shortened:
            context.say(f"{shortened} questions are longer than half of {limit} tokens and were truncated")

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather windows and answers."""
        del context

        def make(rows: Array, rng: np.random.Generator) -> Spans:
            del rng
            return Spans(gathered(store, rows), column(store, "start", rows), column(store, "end", rows))

        return make

    def after_training(self, found: Folder, model: Any, context: Context, train: Store, valid: Store) -> Folder | None:
        """Choose the no-answer threshold with the highest F1 on the validation set, as in SQuAD 2.0."""
        del train, valid
        if not context.facts["no_answer"]:
            return None
        questions = list(validation_examples(self))
        if len({bool(question.answers) for question in questions}) < 2:
            context.say("no-answer threshold not set: validation needs questions with and without an answer")
            return None
        with Bar("choosing the no-answer threshold", total=len(questions)) as bar:
            threshold = best_threshold(bar.each(_answered(model, questions)))
        context.say(f"no answer if its score exceeds that of the best span by more than {threshold:.2f}")
        return replace(found, no_answer_threshold=threshold)

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model has a span head."""
        return has_head(model, "span")

    def metrics(self, exam: Exam) -> list[Metric]:
        """Return exact match and F1."""
        del exam
        return [ExactMatch(), AnswerF1()]

    def trivial(self, exam: Exam, known: Iterable[Question], *, trained: bool) -> dict[str, Trivial]:
        """Never answer, where that is possible."""
        del known, trained
        return {"never an answer": lambda _: ""} if exam.model.no_answer else {}

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Find the best span over all windows of each context.

        The model folder defines whether an answer can be empty. If it does not, the questions decide: answers can be
        empty if some questions have none.
        """
        longest, usual = self.data.max_length, DataConfig().max_length
        questions = list(exam.examples(self))
        options = {
            "max_length": longest if longest != usual else None,
            "no_answer": any(not one.answers for one in questions) if exam.model.no_answer is None else None,
        }
        for chunk in exam.chunks(questions, ANSWERED):
            for question, found in zip(chunk, _answers(exam.model, chunk, options), strict=True):
                yield _prediction(question, found)


def place(window: Window, answer: Answer) -> tuple[int, int]:
    """Find the first and last token of an answer in a window, or (0, 0) if the window does not hold all of it."""
    first, last = answer.start, answer.start + len(answer.text)
    inside = [
        i
        for i, ((start, end), side) in enumerate(zip(window.spans, window.sides, strict=True))
        if side == 1 and start < last and end > first
    ]
    if not inside or window.spans[inside[0]][0] > first or window.spans[inside[-1]][1] < last:
        return 0, 0
    return inside[0], inside[-1]


def _prediction(question: Question, found: Any) -> Prediction:
    """Return the prediction of an answer; of two wrong ones, the more confident is worse."""
    golds = [answer.text for answer in question.answers]
    f1 = answer_f1(found.text, golds)
    return Prediction(
        said=found.text,
        gold=golds,
        texts=(question.question, question.context),
        where=question.where,
        answer=found.text or NO_ANSWER,
        correct=" / ".join(dict.fromkeys(golds)) or NO_ANSWER,
        fault=(1 - f1) * (1 + found.score),
        confidences=(Confidence(found.score, f1 == 1),),
    )


def _answers(model: Any, questions: Sequence[Question], options: dict[str, Any]) -> list[Any]:
    found: list[Any] = model.answer([one.question for one in questions], [one.context for one in questions], **options)
    return found


def _answered(model: Any, questions: Sequence[Question]) -> Iterator[tuple[str, float, list[str]]]:
    for chunk in chunks(questions, ANSWERED):
        found = model.answer_margins([one.question for one in chunk], [one.context for one in chunk])
        for (said, margin), one in zip(found, chunk, strict=True):
            yield said, margin, [answer.text for answer in one.answers]
