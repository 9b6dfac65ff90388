"""Scores word vectors on a file of analogies or of rated word pairs; the content decides which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from qkv.common.errors import UsageError
from qkv.data.files import check_rereadable, content_name, read_lines
from qkv.evaluation.score import Score
from qkv.evaluation.words import Analogies, Vectors, WordSimilarity, read_analogies, read_pairs

STEP = 1000  # lines between two progress updates


def score_file(path: str, vectors: Vectors, progress: Callable[[int], None]) -> Score:
    """Score a whole file. The score is named after the metric and the file."""
    analogies = holds_analogies(path)
    metric: Any = Analogies(vectors) if analogies else WordSimilarity(vectors)
    read: Any = read_analogies if analogies else read_pairs
    count = 0
    try:
        for count, example in enumerate(read(_lines(path)), 1):
            metric.add(*example)
            if count % STEP == 0:
                progress(STEP)
        found = metric.result()
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    progress(count % STEP)
    return replace(found, name=f"{found.name}[{Path(content_name(path)).stem}]")


def holds_analogies(path: str) -> bool:
    """Look at the first non-empty line: an analogy (four words or `: section`), or two words and a number."""
    check_rereadable(path)
    line = next((line for line in _lines(path) if line.strip() and not line.startswith("#")), None)
    if line is None:
        raise UsageError(f"{path} has no analogies and no pairs of words")
    words = line.split()
    if line.startswith(":") or len(words) == 4:
        return True
    if len(words) == 3 and _is_number(words[2]):
        return False
    raise UsageError(
        f"{path} contains {line.strip()[:60]!r}, which is neither an analogy (four words) nor two words and a number"
    )


def _lines(path: str) -> Iterator[str]:
    return (line for _, line in read_lines(path))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
