"""Perplexity of a language model on text that is split as in training and validation.

documents ─► tokens ─► windows over the stream of documents ─► pieces: attention never crosses the end of a document

The first token of a piece has no context and is not predicted, so its words and bytes are not counted either.

With a stride, windows slide over each document, and only tokens that no window has predicted yet are counted:

    document            0 1 2 3 4 5 6 7 8 9
    window 6, stride 2  . 1 2 3 4 5             every later token has at least window - stride tokens before it
                            . . . . 6 7
                                . . . . 8 9
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

from qkv.common.errors import UsageError
from qkv.evaluation.language import UNITS, Perplexity
from qkv.evaluation.score import Score
from qkv.tasks.base import Task
from qkv.tasks.exam import Exam, chunks
from qkv.tokenizers.windows import Window

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Piece:
    """The part of a document in one window.

    Attributes:
        document: the number of the document.
        ids: the tokens.
        context: the number of tokens at its beginning that are not predicted.
        words: the number of words that start in the others.
        bytes: the number of UTF-8 bytes of the others.
    """

    document: int
    ids: list[int]
    context: int
    words: int
    bytes: int


def score_text(task: Task, exam: Exam) -> list[Score]:
    """Compute the perplexity of the model per token, word and byte."""
    model, data, metric = exam.model, task.data, Perplexity()
    window = min(data.short or data.max_length, data.max_length, model.config.max_length)
    for _, several in groupby(_scored(task, exam, window), key=lambda found: found[0].document):
        pieces, surprises = zip(*several, strict=True)
        if tokens := sum(len(piece.ids) - piece.context for piece in pieces):
            metric.add(sum(surprises), tokens, sum(p.words for p in pieces), sum(p.bytes for p in pieces))
    cut = f"text:{data.unit}|window:{window}" + (f"|stride:{exam.stride}" if exam.stride else "")
    found = [metric.result(unit=unit) for unit in UNITS]
    return [replace(score, signature=f"{score.signature}|{cut}") for score in found]


def _scored(task: Task, exam: Exam, window: int) -> Iterator[tuple[Piece, float]]:
    pieces = _sliding(task, exam, window, exam.stride) if exam.stride else _pieces(task, exam, window)
    for some in chunks(pieces, 64):
        found = exam.model.log_probs([piece.ids for piece in some])
        for piece, row in zip(some, found, strict=True):
            yield piece, -float(row[piece.context - 1 :].sum())


def _pieces(task: Task, exam: Exam, window: int) -> Iterator[Piece]:
    """Split the stream of documents into windows, and windows at the ends of documents, as validation does."""
    room = window
    for number, (ids, words, sizes) in enumerate(_documents(task, exam)):
        start = 0
        while start < len(ids):
            end = min(start + room, len(ids))
            yield Piece(number, ids[start:end], 1, sum(words[start + 1 : end]), sum(sizes[start + 1 : end]))
            start, room = end, room - (end - start) or window


def _sliding(task: Task, exam: Exam, window: int, stride: int) -> Iterator[Piece]:
    """Slide windows over each document; each predicts the tokens after those of the window before it."""
    if not 0 < stride <= window:
        raise UsageError(f"the stride must be from 1 to the window of {window} tokens, got {stride}")
    for number, (ids, words, sizes) in enumerate(_documents(task, exam)):
        done = 1  # the first token has nothing before it
        for start in range(0, len(ids), stride):
            end = min(start + window, len(ids))
            first = max(done, start + 1)
            yield Piece(number, ids[start:end], first - start, sum(words[first:end]), sum(sizes[first:end]))
            if (done := end) == len(ids):
                break


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
