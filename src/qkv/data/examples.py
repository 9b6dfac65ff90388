"""What the sources give: one small frozen type per kind of example.

Every example carries `where`, the "file:line" it came from, so that whoever meets it later can say where to look.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Document:
    """Running text, for language models."""

    text: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Parallel:
    """A sentence and its translation."""

    source: str
    target: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Classified:
    """A text, or a pair of texts, and its classes.

    Attributes:
        text: the text, or the first of the pair.
        second: the other text of the pair, or None.
        labels: one name; several or none where an example may have any number of classes.
        where: the place in the file.
    """

    text: str
    second: str | None
    labels: tuple[str, ...]
    where: str = ""


@dataclass(frozen=True, slots=True)
class Rated:
    """A text, or a pair of texts, and a number."""

    text: str
    second: str | None
    score: float
    where: str = ""


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a sentence and one tag for each: IOB2 for names and chunks, plain for parts of speech."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A part of a context: `context[start : start + len(text)] == text`."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a context. No answers means that the context does not answer it."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    where: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImage:
    """An image and its class.

    Attributes:
        pixels: one channel for grey, three for red, green, blue. Shape: [C, H, W], uint8.
        label: the name of the class.
        where: the place in the file.
    """

    pixels: NDArray[np.uint8]
    label: str
    where: str = ""
