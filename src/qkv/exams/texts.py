"""Exams in running text: translations, tags, answers and single words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from qkv.data.config import DataConfig
from qkv.data.examples import Question
from qkv.data.files import expand
from qkv.data.questions import questions
from qkv.data.tagged import tagged
from qkv.decoding.config import DecodingConfig
from qkv.evaluation.answers import AnswerF1, ExactMatch
from qkv.evaluation.classification import Accuracy
from qkv.evaluation.entities import EntityF1
from qkv.evaluation.score import Score
from qkv.evaluation.translation import Bleu, Chrf
from qkv.evaluation.word_files import score_file
from qkv.evaluation.words import Vectors
from qkv.exams.exam import Exam, graded
from qkv.predict import Answer, Model
from qkv.predict.tag import has_entities, iob2, tag_words
from qkv.predict.verbs import names_of
from qkv.predict.words import named_vectors
from qkv.tasks.translate import pairs


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
    """Score the tags of words: whole names, or each word where tags are plain (parts of speech)."""
    if has_entities(names_of(exam.model)):
        return graded([EntityF1()], (([iob2(tag) for tag in said], right) for said, right in _tags(exam)))
    return graded([Accuracy()], (both for said, right in _tags(exam) for both in zip(said, right, strict=True)))


def _tags(exam: Exam) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    for chunk in exam.chunks(tagged(list(exam.paths), **exam.reading)):
        for example, found in zip(chunk, tag_words(exam.model, [e.words for e in chunk]), strict=True):
            yield [tag for tag, _ in found], example.tags


def answers(exam: Exam) -> list[Score]:
    """Score the best span over all windows of each context; it may be empty where the folder says so.

    Where the folder does not tell, it may be empty if some questions have no answer.
    """
    longest, usual = exam.data.max_length, DataConfig().max_length
    asked = list(questions(list(exam.paths), **exam.reading))
    options = {
        "max_length": longest if longest != usual else None,
        "no_answer": any(not one.answers for one in asked) if exam.model.no_answer is None else None,
    }
    said = (
        (found.text, [answer.text for answer in question.answers])
        for chunk in exam.chunks(asked, 64)
        for question, found in zip(chunk, _answers(exam.model, chunk, options), strict=True)
    )
    return graded([ExactMatch(), AnswerF1()], said)


def _answers(model: Model, asked: Sequence[Question], options: dict[str, Any]) -> list[Answer]:
    return model.answer([question.question for question in asked], [question.context for question in asked], **options)


def words(exam: Exam) -> list[Score]:
    """One score for each file of analogies or of pairs."""
    vectors = Vectors(*named_vectors(exam.model))
    return [score_file(path, vectors, exam.progress) for path in expand(exam.paths)]
