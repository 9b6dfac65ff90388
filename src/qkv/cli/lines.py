"""Answers as lines: cells between tabs, or one JSON object a line."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qkv.common.errors import UsageError

if TYPE_CHECKING:  # commands without a model do not import torch
    from qkv.predict import Answer, Choice, Entity, Label

_CONTROLS = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")  # a terminal obeys them
_BREAKS = re.compile(r"[\t\r\n]+")


def json_line(found: Any) -> str:
    """Write one line of JSON. NaN and infinity, which JSON does not have, are null."""
    try:
        line = json.dumps(found, ensure_ascii=False, allow_nan=False)
    except ValueError:
        line = json.dumps(_finite(found), ensure_ascii=False, allow_nan=False)
    return _CONTROLS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", line)


def merged(given: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of the input and those of the answer; one that the input has already is predicted_NAME."""
    return {**given, **{f"predicted_{key}" if key in given else key: value for key, value in answer.items()}}


def table_lines(rows: Iterable[Mapping[str, Any]], delimiter: str) -> Iterator[str]:
    """Write rows as CSV (a comma) or TSV (a tab); the first row gives the header."""
    names: list[str] = []
    for row in rows:
        if not names:
            names = list(row)
            yield _cells(names, delimiter)
        if other := [name for name in row if name not in names]:
            raise UsageError(f"rows have different columns ({other[0]!r} is not in the first): use --out FILE.jsonl")
        yield _cells([row.get(name) for name in names], delimiter)


def flat(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer for a row of a table: several labels and their scores are joined, other lists are JSON."""
    if "labels" in answer:
        return {key: ", ".join(str(_rounded(one[key])) for one in answer["labels"]) for key in ("label", "score")}
    return {key: _rounded(value) for key, value in answer.items()}


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _cells(values: Iterable[Any], delimiter: str) -> str:
    cells = ["" if v is None else v if isinstance(v, str | int | float) else json_line(v) for v in values]
    if delimiter == "\t":  # has no quotes
        return "\t".join(one_cell(str(cell)) for cell in cells)
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)  # cells with these characters get quotes
    return line.getvalue().removesuffix("\r\n")


def _finite(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {key: _finite(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_finite(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def label_line(found: Label | list[Label] | float) -> str:
    """Write a label and its probability, several of them one after the other, or a number."""
    if isinstance(found, float):
        return f"{found:.4f}"
    labels = found if isinstance(found, list) else [found]
    return "\t".join(f"{one_cell(label.label)}\t{label.score:.4f}" for label in labels)


def entity_line(found: Sequence[Entity]) -> str:
    """Write each entity: label, start, end, score, text."""
    return "\t".join(f"{one_cell(e.label)} {e.start} {e.end} {e.score:.4f} {one_cell(e.text)}" for e in found)


def word_line(found: Sequence[Entity]) -> str:
    """Write each word with its tag."""
    return " ".join(f"{one_cell(word.text)}/{one_cell(word.label)}" for word in found)


def answer_line(number: int, found: Answer, *, several: bool) -> str:
    """Write an answer: text, score, start, end; several of them on lines that begin with the question's number."""
    rows = [f"{one_cell(one.text)}\t{one.score:.4f}\t{one.start}\t{one.end}" for one in (found, *found.others)]
    return "\n".join(f"{number}\t{row}" for row in rows) if several else rows[0]


def choice_line(found: Sequence[Sequence[Choice]]) -> str:
    """Write the words of each mask and their probabilities, a line for each mask."""
    return "\n".join("\t".join(f"{one_cell(c.word)}\t{c.score:.4f}" for c in choices) for choices in found)


def one_cell(text: str) -> str:
    """Write a cell as one line without tabs, whatever is in the text."""
    return _BREAKS.sub(" ", text)
