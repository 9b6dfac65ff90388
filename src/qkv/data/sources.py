"""Every source of examples, by name.

All are streams: nothing is read before it is asked for, and no more than one example is held (of SQuAD's JSON, one
file). `bad="stop"` raises at the first row that cannot be used, with its file and line; `bad="skip"` counts it in
`skipped`, a `BadRows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from qkv.data.bad_rows import BadRows
from qkv.data.columns import Columns
from qkv.data.documents import documents
from qkv.data.images import images
from qkv.data.labelled import classified, find_columns, rated, sort_labels
from qkv.data.parallel import parallel
from qkv.data.questions import questions
from qkv.data.split import held_out
from qkv.data.tagged import tagged

SOURCES: dict[str, Callable[..., Iterator[Any]]] = {
    "documents": documents,
    "parallel": parallel,
    "classified": classified,
    "rated": rated,
    "tagged": tagged,
    "questions": questions,
    "images": images,
}

__all__ = [
    "SOURCES",
    "BadRows",
    "Columns",
    "classified",
    "documents",
    "find_columns",
    "held_out",
    "images",
    "parallel",
    "questions",
    "rated",
    "sort_labels",
    "tagged",
]
