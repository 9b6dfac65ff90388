"""Question answering: find the best span of a context over all of its windows, with its position and score.

The score of a span is the start score of its first token plus the end score of its last (Devlin et al. 2019, section
4.2). The spans of all windows share one softmax, so that they can be compared; for a single window this is
p(start) · p(end). As in training, the first token of a window means "no answer here". The answer is empty if that
scores above the best span by more than the folder's threshold (Rajpurkar et al. 2018).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from qkv.common.errors import Shortened, UsageError
from qkv.decoding.spans import best_spans
from qkv.predict.finite import finite
from qkv.predict.runner import Runner
from qkv.predict.texts import check_texts, readable
from qkv.predict.verbs import reader
from qkv.tokenizers.questions import question_windows
from qkv.tokenizers.windows import Window

WINDOW = 384  # tokens of a window, as readers are trained


@dataclass(frozen=True)
class Answer:
    """A piece of the context: the characters from `start` up to, but not including, `end`.

    Attributes:
        text: the answer; empty if there is none.
        start: index of its first character in the context.
        end: index after its last character.
        score: its probability among all spans.
        others: the next best answers, if you asked for more than one.
    """

    text: str
    start: int
    end: int
    score: float
    others: list[Answer] = field(default_factory=list)

    def to_dict(self, *, others: bool = False) -> dict[str, Any]:
        """Return the answer for JSON, with the next best if you want them."""
        found = {"answer": self.text, "start": self.start, "end": self.end, "score": self.score}
        return found | {"others": [one.to_dict() for one in self.others]} if others else found


@dataclass(frozen=True)
class Scored:
    """The scores of a window.

    Attributes:
        spans: the scores of its best spans, by start and end character.
        nothing: the score of no answer.
        total: the logarithm of the sum over all spans.
    """

    spans: dict[tuple[int, int], float]
    nothing: float
    total: float


def answer(
    model: Runner,
    questions: Sequence[str],
    contexts: str | Sequence[str],
    *,
    nbest: int = 1,
    no_answer: bool | None = None,
    max_length: int | None = None,
) -> list[Answer]:
    """Answer each question from its context; see `Model.answer`."""
    read, cut = _read(model, questions, contexts, nbest, max_length)
    if cut:
        warnings.warn(Shortened(cut, len(questions), "questions were cut to half of a window"), stacklevel=3)
    allowed = model.no_answer if no_answer is None else no_answer
    threshold = model.no_answer_threshold if allowed else None
    return [_best(text, windows, nbest, threshold) for text, windows in read]


def doubts(model: Runner, questions: Sequence[str], contexts: Sequence[str]) -> list[tuple[str, float]]:
    """Return the best span of each context and how far "no answer" scores above it (infinity if there is no span)."""
    found = []
    for context, windows in _read(model, questions, contexts)[0]:
        (start, end), best = max(_spans(windows).items(), key=lambda item: item[1], default=((0, 0), -math.inf))
        found.append((context[start:end], _nothing(windows) - best))
    return found


def _read(
    model: Runner,
    questions: Sequence[str],
    contexts: str | Sequence[str],
    nbest: int = 1,
    max_length: int | None = None,
) -> tuple[list[tuple[str, list[Scored]]], int]:
    """Return the context of each question with the scores of its windows, and how many questions were cut."""
    tokenizer = reader(model, "answer", questions)
    texts = _checked(questions, contexts, nbest)
    limit = min(max_length or WINDOW, model.max_length or WINDOW)
    windows, cut = question_windows(tokenizer, readable(questions), readable(texts), limit)
    flat = [window for some in windows for window in some]
    if not flat:
        return [], 0
    scores = model.logits([w.ids for w in flat], segments=[w.segments for w in flat], head="span")
    rest = iter(finite(torch.cat(scores)).float().cpu().split([len(window.ids) for window in flat]))
    said = [list(zip(some, islice(rest, len(some)), strict=True)) for some in windows]
    read = [(text, [_scored(text, *one, nbest) for one in some]) for text, some in zip(texts, said, strict=True)]
    return read, len(cut)


def _checked(questions: Sequence[str], contexts: str | Sequence[str], nbest: int) -> list[str]:
    """Return a context for each question."""
    if nbest < 1:
        raise UsageError(f"nbest must be at least 1, got {nbest}")
    for number, question in enumerate(check_texts("answer", questions)):
        if not question.strip():
            raise UsageError(f"question {number} is empty")
    texts = [contexts] * len(questions) if isinstance(contexts, str) else list(contexts)
    if len(texts) != len(questions):
        raise UsageError(f"{len(questions)} questions and {len(texts)} contexts: give one context, or one for each")
    return texts


def _scored(context: str, window: Window, scores_L2: Tensor, count: int) -> Scored:
    """Find the best spans of a window; a span starts and ends with a visible character."""
    places = zip(window.spans, window.sides, strict=True)
    allowed = torch.tensor([side == 1 and bool(context[start:end].strip()) for (start, end), side in places])
    first = torch.arange(len(allowed)) == 0
    start, end = scores_L2[allowed | first].logsumexp(0).tolist()
    spans: dict[tuple[int, int], float] = {}
    for score, i, j in best_spans(scores_L2, allowed, count):
        spans.setdefault((window.spans[i][0], window.spans[j][1]), score)
    return Scored(spans, float(scores_L2[0].sum()), start + end)


def _spans(windows: Sequence[Scored]) -> dict[tuple[int, int], float]:
    """Merge the spans of all windows, each with its best score."""
    found: dict[tuple[int, int], float] = {}
    for window in windows:
        for place, score in window.spans.items():
            found[place] = max(score, found.get(place, -math.inf))
    return found


def _nothing(windows: Sequence[Scored]) -> float:
    """Return the score of "no answer": the lowest over all windows, since every window has to agree."""
    return min(window.nothing for window in windows)


def _best(context: str, windows: Sequence[Scored], nbest: int, threshold: float | None) -> Answer:
    """Rank the spans of all windows; with a threshold, "no answer" takes part and is lowered by the threshold."""
    found = _spans(windows)
    behind = {(0, 0): threshold or 0.0}  # no span is empty
    if threshold is not None or not found:
        found[0, 0] = _nothing(windows)
    total = float(torch.tensor([window.total for window in windows], dtype=torch.float64).logsumexp(0))
    ranked = sorted(found.items(), key=lambda item: behind.get(item[0], 0.0) - item[1])[:nbest]
    answers = [Answer(context[a:b], a, b, math.exp(score - total)) for (a, b), score in ranked]
    return replace(answers[0], others=answers[1:])
