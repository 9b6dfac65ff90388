"""Questions about a text: SQuAD 1.1 and 2.0 JSON, or one row per question in JSONL, Parquet and Hub data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qkv.common.errors import QkvError, show
from qkv.data.bad_rows import BadRow, BadRows, check_policy, sift
from qkv.data.examples import Answer, Question
from qkv.data.files import Paths, content_name, expand, read_text
from qkv.data.json_text import NotJson, parse
from qkv.data.table_readers import READERS
from qkv.data.tables import find_format, shorten, table_format, text_of

Rows = Iterator[tuple[str, dict[str, Any] | BadRow]]


def questions(
    paths: Paths, *, encoding: str = "", bad: str = "stop", skipped: BadRows | None = None
) -> Iterator[Question]:
    """Read questions; a SQuAD file is held in memory.

    If an answer is not at its position, the context is searched for it: one match is used, none or several make the
    question bad.

    Args:
        paths: one file, several, or a pattern.
        encoding: of the files; empty detects it.
        bad: stop at a question that cannot be used, or skip it.
        skipped: counts skipped questions.
    """
    check_policy(bad)
    rows = (row for path in expand(paths) for row in (_from_rows if _has_rows(path) else _from_file)(path, encoding))
    return sift(rows, _question, bad, skipped)


def _has_rows(path: str) -> bool:
    return find_format(path) in ("hub", "parquet") or content_name(path).lower().endswith((".jsonl", ".ndjson"))


def _from_file(path: str, encoding: str) -> Rows:
    """Yield each question with the context of its paragraph. Its place is the file and its id."""
    text = read_text(path, encoding)
    if text.lstrip().startswith("["):  # a list of questions
        if text.strip("[] \t\r\n") == "":
            raise QkvError(f"{path} contains no questions")
        yield from _from_rows(path, encoding)
        return
    try:
        content = parse(text)
    except NotJson as error:
        raise QkvError(f"{path}:{error.line}: {error}") from None
    for article in _list(content, "data", path):
        for number, paragraph in enumerate(_list(article, "paragraphs", path), 1):
            place = f"{path}: paragraph {number} of {article.get('title', 'an article')!r}"
            yield from _asked(path, place, paragraph)


def _asked(path: str, place: str, paragraph: Any) -> Rows:
    """Yield the questions of a paragraph."""
    if not isinstance(paragraph, dict) or not isinstance(paragraph.get("qas"), list):
        yield place, BadRow("there is no list 'qas'; SQuAD files nest data > paragraphs > qas")
        return
    for asked in paragraph["qas"]:
        if isinstance(asked, dict):
            yield f"{path}:{asked.get('id', '?')}", {"context": paragraph.get("context"), **asked}
        else:
            yield place, BadRow(f"a question must be an object, got {show(asked, 30)}")


def _from_rows(path: str, encoding: str) -> Rows:
    """Yield the rows of a table; the id is optional, and answers may be two lists, of texts and of starts."""
    for where, row in READERS[table_format(path)](path, encoding):
        yield where, row if isinstance(row, BadRow) else {"id": where, **row, "answers": _pairs(row.get("answers"))}


def _pairs(answers: Any) -> Any:
    if not isinstance(answers, Mapping):
        return answers
    texts, starts = answers.get("text"), answers.get("answer_start")
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        return None
    return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]


def _list(value: Any, key: str, place: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise QkvError(f"{place}: there is no list {key!r}; SQuAD files nest data > paragraphs > qas")
    return found


def _question(where: str, row: Mapping[str, Any]) -> Question:
    context = text_of(row.get("context"), "context")
    name = row.get("id")
    return Question(
        id=str(name) if isinstance(name, int) else text_of(name, "id"),
        question=text_of(row.get("question"), "question").strip(),
        context=context,
        answers=() if row.get("is_impossible") else _answers(row.get("answers"), context),
        where=where,
    )


def _answers(value: Any, context: str) -> tuple[Answer, ...]:
    if not isinstance(value, list) or not all(isinstance(answer, dict) for answer in value):
        raise BadRow("there is no list of answers")
    return tuple(_placed(answer.get("text"), answer.get("answer_start"), context) for answer in value)


def _placed(text: Any, start: Any, context: str) -> Answer:
    """Return the answer with its actual position."""
    text = text_of(text, "answer")
    if isinstance(start, int) and start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    found = context.find(text)
    if found < 0:
        raise BadRow(f"the answer {shorten(text)!r} is not in the context")
    if context.find(text, found + 1) >= 0:
        raise BadRow(f"the answer {shorten(text)!r} is not at {start} and occurs more than once")
    return Answer(text, found)
