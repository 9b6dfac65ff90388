"""Reading: where in the context the answer stands. Long contexts are read through windows that overlap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from qkv.common.batch import Spans
from qkv.common.config import from_dict
from qkv.data.config import DataConfig
from qkv.data.examples import Answer, Question
from qkv.data.questions import questions
from qkv.data.store import Store
from qkv.objectives.span import AnswerSpan
from qkv.tasks.base import Array, Collate, Context, Row, Task, chunks, gathered
from qkv.tokenizers.questions import question_windows
from qkv.tokenizers.windows import Window


class AnswerTask(Task):
    """A window that does not hold the whole answer points at its first token."""

    heads = ("span",)

    def examples(self, paths: Sequence[str], data: DataConfig) -> Iterator[Question]:
        """Read questions."""
        return questions(list(paths), bad=data.bad)

    def texts(self, paths: Sequence[str], data: DataConfig) -> Iterator[str]:
        """Yield questions and contexts."""
        for example in self.examples(paths, data):
            yield example.question
            yield example.context

    def no_answer(self, paths: Sequence[str], data: DataConfig) -> bool:
        """Say whether some questions have no answer."""
        return any(not example.answers for example in self.examples(paths, data))

    def rows(self, paths: Sequence[str], context: Context) -> Iterator[Row]:
        """Tokenise each question with each window of its context; a row has the number of its question."""
        limit, shortened = min(context.data.max_length, context.config.max_length), 0
        for chunk in chunks(enumerate(questions(list(paths), **context.reading)), 200):
            asked, contexts = [example.question for _, example in chunk], [example.context for _, example in chunk]
            windows, cut = question_windows(context.text, asked, contexts, limit)
            shortened += len(cut)
            for (number, example), found in zip(chunk, windows, strict=True):
                for window in found:
                    start, end = place(window, example.answers[0]) if example.answers else (0, 0)
                    row = {"ids": window.ids, "segments": window.segments, "start": start, "end": end}
                    yield row | {"question": number}
        if shortened:
            context.say(f"{shortened} questions are longer than half of {limit} tokens and were cut")

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather windows and answers."""
        del context

        def make(rows: Array, rng: np.random.Generator) -> Spans:
            del rng
            ends = (torch.from_numpy(store.gather(name, rows)[0].astype(np.int64)) for name in ("start", "end"))
            return Spans(gathered(store, rows), *ends)

        return make

    def objective(self, settings: Mapping[str, Any]) -> AnswerSpan:
        """Cross-entropy of both ends."""
        return from_dict(AnswerSpan, settings)


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
