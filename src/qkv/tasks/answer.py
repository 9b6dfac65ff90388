"""Reading: where in its context the answer to a question stands. Long contexts are read through overlapping windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from qkv.evaluation.answers import AnswerF1, ExactMatch, best_threshold
from qkv.evaluation.score import Score
from qkv.objectives.span import AnswerSpan
from qkv.tasks.base import Array, Collate, Context, Row, Say, Task, has_head
from qkv.tasks.batches import column, gathered, limit_of
from qkv.tasks.exam import Exam, chunks, graded
from qkv.tasks.split import validation_examples
from qkv.tokenizers.questions import question_windows
from qkv.tokenizers.windows import Window

CHUNK = 200  # questions that are tokenised at a time
ANSWERED = 64  # questions that are answered at a time


class AnswerTask(Task):
    """A window that does not hold the whole answer points at its first token."""

    Settings: ClassVar[type[Any]] = AnswerSpan
    heads: ClassVar[tuple[str, ...]] = ("span",)
    keeps_length: ClassVar[bool] = True
    held_out_unit: ClassVar[str] = "contexts, with all of their questions,"

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Question]:
        """Read questions."""
        return questions(list(paths), bad=self.data.bad, skipped=skipped)

    def texts(self, example: Question) -> Iterable[str]:
        """Return the question and its context."""
        return example.question, example.context

    def key(self, example: Question) -> str:
        """Hold out by the context, so that no context of validation is read in training."""
        return example.context

    def survey(self, examples: Iterable[Question], say: Say) -> dict[str, Any]:
        """Find out whether some questions have no answer."""
        del say
        return {"no_answer": any(not example.answers for example in examples)}

    def folder_facts(self, context: Context) -> dict[str, Any]:
        """Whether the model may give no answer."""
        return {"no_answer": context.facts["no_answer"]}

    def rows(self, examples: Iterable[Question], context: Context) -> Iterator[Row]:
        """Tokenise each question with each window of its context."""
        limit, shortened = limit_of(context, self.data.max_length), 0
        for chunk in chunks(examples, CHUNK):
            asked, contexts = [example.question for example in chunk], [example.context for example in chunk]
            windows, cut = question_windows(context.text, asked, contexts, limit)
            shortened += len(cut)
            for example, found in zip(chunk, windows, strict=True):
                for window in found:
                    start, end = place(window, example.answers[0]) if example.answers else (0, 0)
                    segments = {"segments": window.segments} if context.num_segments > 1 else {}
                    yield {"ids": window.ids, **segments, "start": start, "end": end}
        if shortened:
            context.say(f"{shortened} questions are longer than half of {limit} tokens and were cut")

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather windows and answers."""
        del context

        def make(rows: Array, rng: np.random.Generator) -> Spans:
            del rng
            return Spans(gathered(store, rows), column(store, "start", rows), column(store, "end", rows))

        return make

    def after_training(self, found: Folder, model: Any, context: Context, train: Store, valid: Store) -> Folder | None:
        """Choose when to give no answer: the threshold with the highest F1 on validation, as SQuAD 2.0 does."""
        del train, valid
        if not context.facts["no_answer"]:
            return None
        asked = list(validation_examples(self))
        if len({bool(question.answers) for question in asked}) < 2:
            context.say("no threshold for empty answers is chosen: validation needs questions with and without one")
            return None
        with Bar("choosing when there is no answer", total=len(asked)) as bar:
            threshold = best_threshold(bar.each(_answered(model, asked)))
        context.say(f"no answer is given where its score less that of the best span is above {threshold:.2f}")
        return replace(found, no_answer_threshold=threshold)

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Score readers."""
        return has_head(model, "span")

    def score(self, exam: Exam) -> list[Score]:
        """Score the best span over all windows of each context; it may be empty where the folder says so.

        Where the folder does not tell, it may be empty if some questions have no answer.
        """
        longest, usual = self.data.max_length, DataConfig().max_length
        asked = list(self.examples(exam.paths, exam.skipped))
        options = {
            "max_length": longest if longest != usual else None,
            "no_answer": any(not one.answers for one in asked) if exam.model.no_answer is None else None,
        }
        said = (
            (found.text, [answer.text for answer in question.answers])
            for chunk in exam.chunks(asked, ANSWERED)
            for question, found in zip(chunk, _answers(exam.model, chunk, options), strict=True)
        )
        return graded([ExactMatch(), AnswerF1()], said)


def place(window: Window, answer: Answer) -> tuple[int, int]:
    """Find the first and last token of an answer in a window, or (0, 0) where it is not whole in it."""
    first, last = answer.start, answer.start + len(answer.text)
    inside = [
        i
        for i, ((start, end), side) in enumerate(zip(window.spans, window.sides, strict=True))
        if side == 1 and start < last and end > first
    ]
    if not inside or window.spans[inside[0]][0] > first or window.spans[inside[-1]][1] < last:
        return 0, 0
    return inside[0], inside[-1]


def _answers(model: Any, asked: Sequence[Question], options: dict[str, Any]) -> list[Any]:
    found: list[Any] = model.answer([one.question for one in asked], [one.context for one in asked], **options)
    return found


def _answered(model: Any, asked: Sequence[Question]) -> Iterator[tuple[str, float, list[str]]]:
    for chunk in chunks(asked, ANSWERED):
        found = model.answer_margins([one.question for one in chunk], [one.context for one in chunk])
        for (said, margin), one in zip(found, chunk, strict=True):
            yield said, margin, [answer.text for answer in one.answers]
