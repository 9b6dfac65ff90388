"""The confusion matrix and the worst mistakes as text, for `qkv evaluate --confusion` and `--errors`."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.common.terminal import one_line
from qkv.evaluation.confusion import ClassRates, Matrix
from qkv.exams.study import Mistake

NAME = 16  # characters of a class in the matrix
TEXT = 400  # characters of a text


def matrix_lines(found: Matrix) -> str:
    """Format the matrix: rows are the correct classes, columns the predicted ones."""
    names = [_short(label, NAME) for label in found.labels]
    rows = [["correct \\ predicted", *names]]
    rows += [[name, *map(str, counts)] for name, counts in zip(names, found.counts, strict=True)]
    return _aligned(rows)


def class_lines(found: Sequence[ClassRates]) -> str:
    """Format precision, recall, F1 and support of each class."""
    rows = [["class", "precision", "recall", "f1", "support", "predicted"]]
    for one in found:
        rates = (f"{value:.4f}" for value in (one.precision, one.recall, one.f1))
        rows.append([_short(one.label, 40), *rates, str(one.support), str(one.predicted)])
    return _aligned(rows)


def mistake_lines(found: Sequence[Mistake]) -> str:
    """Format the worst mistakes: the place, the two answers and the text of each."""
    if not found:
        return "no mistakes"
    blocks = []
    for place, one in enumerate(found, 1):
        sure = "" if one.chance is None else f" ({one.chance:.2f})"
        lines = [
            f"{place}. {_short(one.where)}",
            f"   model    {_short(one.answer)}{sure}",
            f"   correct  {_short(one.correct)}",
        ]
        blocks.append("\n".join([*lines, *(f"   text     {_short(text)}" for text in one.texts)]))
    return "\n".join(blocks)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _short(text: str, limit: int = TEXT) -> str:
    return one_line(text if len(text) <= limit else text[: limit - 1] + "…")
