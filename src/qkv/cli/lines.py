"""Labels, tags, answers and words as lines: cells between tabs, or one JSON object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from qkv.predict import Answer, Choice, Entity, Label

_BREAKS = re.compile(r"[\t\r\n]+")


def label_line(found: Label | list[Label] | float) -> str:
    """Write a label and its probability, several of them one after the other, or a number."""
    if isinstance(found, float):
        return f"{found:.4f}"
    labels = [found] if isinstance(found, Label) else found
    return "\t".join(f"{_cell(label.label)}\t{label.score:.4f}" for label in labels)


def label_object(asked: Mapping[str, str], found: Label | list[Label] | float) -> str:
    """Write a text, or a pair, and the same."""
    if isinstance(found, float):
        return _json({**asked, "number": found})
    return _json({**asked, **(asdict(found) if isinstance(found, Label) else {"labels": list(map(asdict, found))})})


def entity_line(found: Sequence[Entity]) -> str:
    """Write each entity: label, start, end, score, text."""
    return "\t".join(f"{_cell(e.label)} {e.start} {e.end} {e.score:.4f} {_cell(e.text)}" for e in found)


def word_line(found: Sequence[Entity]) -> str:
    """Write each word with its tag."""
    return " ".join(f"{_cell(word.text)}/{_cell(word.label)}" for word in found)


def entity_object(text: str, found: Sequence[Entity], what: str) -> str:
    """Write a text with its entities, or with its words."""
    return _json({"text": text, what: list(map(asdict, found))})


def answer_line(number: int, found: Answer, *, several: bool) -> str:
    """Write an answer: text, score, start, end; several of them on lines that begin with the question's number."""
    rows = [f"{_cell(one.text)}\t{one.score:.4f}\t{one.start}\t{one.end}" for one in (found, *found.others)]
    return "\n".join(f"{number}\t{row}" for row in rows) if several else rows[0]


def answer_object(asked: Mapping[str, Any], found: Answer, *, several: bool) -> str:
    """Write what was asked, without the context, and the same."""
    rows = [
        {"answer": one.text, "start": one.start, "end": one.end, "score": one.score} for one in (found, *found.others)
    ]
    others = {"others": rows[1:]} if several else {}
    return _json({key: value for key, value in asked.items() if key != "context"} | rows[0] | others)


def choice_line(found: Sequence[Sequence[Choice]]) -> str:
    """Write the words of each mask and their probabilities, a line for each mask."""
    return "\n".join("\t".join(f"{_cell(c.word)}\t{c.score:.4f}" for c in choices) for choices in found)


def choice_object(text: str, found: Sequence[Sequence[Choice]]) -> str:
    """Write a text and the same."""
    return _json({"text": text, "masks": [list(map(asdict, choices)) for choices in found]})


def _json(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)


def _cell(text: str) -> str:
    """A cell is one line without tabs, whatever stood in the text."""
    return _BREAKS.sub(" ", text)
