"""Exams in running text: translations, tags, answers, what comes next, and single words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from qkv.common.errors import UsageError
from qkv.data.documents import documents
from qkv.data.examples import Question
from qkv.data.files import expand
from qkv.data.questions import questions
from qkv.data.tagged import tagged
from qkv.decoding.config import DecodingConfig
from qkv.decoding.spans import best_span
from qkv.evaluation.answers import AnswerF1, ExactMatch
from qkv.evaluation.entities import EntityF1
from qkv.evaluation.language import Perplexity
from qkv.evaluation.score import Score
from qkv.evaluation.translation import Bleu, Chrf
from qkv.evaluation.word_files import score_file
from qkv.evaluation.words import Vectors
from qkv.predict import Model
from qkv.recipes.exam import Exam, graded
from qkv.tokenizers.text import TextTokenizer
from qkv.training.config import DataConfig
from qkv.training.tasks.translate import pairs


def translations(exam: Exam) -> list[Score]:
    """Score translations; how they were searched for is said behind each signature."""
    searched = f"beam:{exam.beam}|lp:{DecodingConfig().length_penalty}"
    found = graded([Bleu(), Bleu(lowercase=True), Chrf()], _translations(exam))
    return [replace(score, signature=f"{score.signature}|{searched}") for score in found]


def _translations(exam: Exam) -> Iterator[tuple[str, list[str]]]:
    for chunk in exam.chunks(pairs(exam.paths, exam.data, **exam.reading)):
        said = exam.model.translate([source for source, _ in chunk], beam=exam.beam)
        yield from ((text, [reference]) for text, (_, reference) in zip(said, chunk, strict=True))


def tags(exam: Exam) -> list[Score]:
    """Score the tags of words."""
    return graded([EntityF1()], _tags(exam))


def _tags(exam: Exam) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    model, tokenizer = exam.model, _tokenizer(exam.model, "tags are given to words")
    for chunk in exam.chunks(tagged(list(exam.paths), **exam.reading)):
        found = tokenizer.encode_words([e.words for e in chunk], max_length=model.config.max_length)
        for example, words, scores in zip(chunk, found.words, model.logits(found.ids), strict=True):
            best = scores.argmax(-1).tolist()
            said = ["O"] * len(example.words)  # a word that was cut off, or gave no token, is outside
            for token in reversed(range(len(words))):
                if words[token] >= 0:
                    said[words[token]] = model.labels[best[token]]
            yield said, example.tags


def answers(exam: Exam) -> list[Score]:
    """Score the best span over all windows of each context."""
    longest, usual = exam.data.max_length, DataConfig().max_length
    limit = min(longest if longest != usual else 384, exam.model.config.max_length)
    said = (
        (text, [answer.text for answer in example.answers])
        for chunk in exam.chunks(questions(list(exam.paths), **exam.reading), 64)
        for example, text in zip(chunk, answered(exam.model, chunk, limit), strict=True)
    )
    return graded([ExactMatch(), AnswerF1()], said)


def answered(model: Model, asked: Sequence[Question], limit: int) -> list[str]:
    """Answer questions from their contexts, in the contexts' own characters."""
    tokenizer = _tokenizer(model, "answers are read from text")
    texts, contexts = [q.question for q in asked], [q.context for q in asked]
    found = tokenizer.encode_spans(texts, contexts, max_length=limit, stride=min(128, limit // 4))
    owners = [number for number, windows in enumerate(found) for _ in windows]
    flat = [window for windows in found for window in windows]
    best: dict[int, tuple[float, str]] = {}
    scored = model.logits([window.ids for window in flat], segments=[window.segments for window in flat], head="span")
    for number, window, scores in zip(owners, flat, scored, strict=True):
        allowed = torch.tensor([side == 1 for side in window.sides], device=scores.device)
        span = best_span(scores, allowed)
        if span is None:
            continue
        text = contexts[number][window.spans[span.first][0] : window.spans[span.last][1]]
        if number not in best or span.score > best[number][0]:
            best[number] = (span.score, text)
    return [best[number][1] if number in best else "" for number in range(len(asked))]


def language(exam: Exam) -> list[Score]:
    """Long documents are read in windows that follow one another: every token but the first is asked for once."""
    metric, model = Perplexity(), exam.model
    tokenizer = _tokenizer(model, "perplexity is measured on text")
    for chunk in exam.chunks(documents(list(exam.paths), unit=exam.data.unit, **exam.reading), 16):
        texts = [document.text for document in chunk]
        for text, ids in zip(texts, tokenizer.encode(texts).ids, strict=True):
            starts = range(0, len(ids) - 1, model.config.max_length)
            nll = sum(_surprise(model, ids[i : i + model.config.max_length + 1]) for i in starts)
            if len(ids) > 1:
                metric.add(nll, len(ids) - 1, len(text.split()), len(text.encode()))
    return [metric.result(unit=unit) for unit in ("token", "word", "byte")]


def _surprise(model: Model, ids: Sequence[int]) -> float:
    """-log p of all tokens but the first, each after those before it."""
    log_p = model.logits([ids[:-1]])[0].float().log_softmax(-1)
    return -float(log_p.gather(-1, torch.tensor(ids[1:], device=log_p.device).unsqueeze(-1)).sum())


def words(exam: Exam) -> list[Score]:
    """One score for each file of analogies or of pairs."""
    tokenizer = exam.model.tokenizer
    if tokenizer is None or tokenizer.kind != "WordLevel":
        raise UsageError("word vectors are asked for whole words: a folder with a tokenizer of words is needed")
    table: Any = exam.model.module.inputs
    special = set(tokenizer.specials.values())
    found = {row: tokenizer.token_of(row) for row in range(table.num_embeddings) if row not in special}
    named = {row: word for row, word in found.items() if word is not None}
    vectors = Vectors(list(named.values()), table.weight.detach().float().cpu().numpy()[list(named)])
    return [score_file(path, vectors, exam.progress) for path in expand(exam.paths)]


def _tokenizer(model: Model, why: str) -> TextTokenizer:
    if model.tokenizer is None:
        raise UsageError(f"{why}, and this model has no tokenizer")
    return model.tokenizer
