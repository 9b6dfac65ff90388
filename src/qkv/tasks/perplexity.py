"""Perplexity of a language model on text that is split as in training and validation.

documents ─► tokens ─► windows over the stream of documents ─► pieces: attention never crosses the end of a document

The first token of a piece has no context and is not predicted, so its words and bytes are not counted either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Any

import torch
import torch.nn.functional as F

from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.evaluation.language import UNITS, Perplexity
from qkv.evaluation.score import Score
from qkv.tasks.base import Task
from qkv.tasks.exam import Exam, chunks
from qkv.tokenizers.windows import Window

ROWS = 256  # tokens whose logits are held in memory at a time
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Piece:
    """The part of a document in one window.

    Attributes:
        document: the number of the document.
        ids: the tokens.
        words: the number of words that start after the first token.
        bytes: the number of UTF-8 bytes of the tokens after the first.
    """

    document: int
    ids: list[int]
    words: int
    bytes: int


def score_text(task: Task, exam: Exam) -> list[Score]:
    """Compute the perplexity of the model per token, word and byte."""
    model, data, metric = exam.model, task.data, Perplexity()
    window = min(data.short or data.max_length, data.max_length, model.config.max_length)
    for _, several in groupby(_scored(task, exam, window), key=lambda found: found[0].document):
        pieces, surprises = zip(*several, strict=True)
        if tokens := sum(len(piece.ids) - 1 for piece in pieces):
            metric.add(sum(surprises), tokens, sum(p.words for p in pieces), sum(p.bytes for p in pieces))
    cut = f"text:{data.unit}|window:{window}"
    found = [metric.result(unit=unit) for unit in UNITS]
    return [replace(score, signature=f"{score.signature}|{cut}") for score in found]


def _scored(task: Task, exam: Exam, window: int) -> Iterator[tuple[Piece, float]]:
    for some in chunks(_pieces(task, exam, window), 64):
        yield from zip(some, _surprises(exam.model, [piece.ids for piece in some]), strict=True)


def _pieces(task: Task, exam: Exam, window: int) -> Iterator[Piece]:
    """Split the stream of documents into windows, and windows at the ends of documents.

    The last, partial window counts too; validation drops windows that do not fill a batch.
    """
    room = window
    for number, (ids, words, sizes) in enumerate(_documents(task, exam)):
        start = 0
        while start < len(ids):
            end = min(start + room, len(ids))
            yield Piece(number, ids[start:end], sum(words[start + 1 : end]), sum(sizes[start + 1 : end]))
            start, room = end, room - (end - start) or window


def _documents(task: Task, exam: Exam) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Yield the tokens of each document, and the number of words and bytes of each token."""
    tokenizer = exam.model.tokenizer
    if tokenizer is None:
        raise UsageError("perplexity is measured on text, but this model has no tokenizer")
    end = tokenizer.specials.get("end") if exam.ends else None
    for chunk in exam.chunks(exam.examples(task), 16):
        texts = [document.text for document in chunk]
        for text, (encoded,) in zip(texts, tokenizer.encode_spans(texts), strict=True):
            words, sizes = _counts(text, encoded)
            if end is None or encoded.ids[-1:] == [end]:
                yield encoded.ids, words, sizes
            else:  # as CausalTask does in training
                yield [*encoded.ids, end], [*words, 0], [*sizes, 0]


def _counts(text: str, encoded: Window) -> tuple[list[int], list[int]]:
    """Assign words and bytes of a text to its tokens: a token owns the text from the previous token to its own end."""
    ends = list(accumulate((end for _, end in encoded.spans), max))
    if ends:
        ends[-1] = len(text)
    starts = [0, *ends[:-1]]
    begins = iter([found.start() for found in _WORD.finditer(text)])
    begin, words = next(begins, None), []
    for end in ends:
        words.append(0)
        while begin is not None and begin < end:
            words[-1] += 1
            begin = next(begins, None)
    return words, [len(text[start:end].encode()) for start, end in zip(starts, ends, strict=True)]


def _surprises(model: Any, ids: Sequence[list[int]]) -> list[float]:
    """Return -log p of each sequence: of all tokens but the first, each given the tokens before it."""
    wanted: list[torch.Tensor] = []

    def states(batch: Any) -> Hidden:
        wanted.append(batch.ids.roll(-1))
        return model.module(batch)

    def finish(hidden: Hidden) -> list[float]:
        rows = zip(hidden.states.split(ROWS), wanted.pop().split(ROWS), strict=True)
        scores = ((model.module.logits(Hidden(some, hidden.layout), "lm").float(), right) for some, right in rows)
        nll = torch.cat([F.cross_entropy(logits, right, reduction="none") for logits, right in scores])
        return [float(one[:-1].double().sum()) for one in hidden.layout.split(nll)]

    return model.run(ids, states, finish)
