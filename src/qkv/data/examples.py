"""One frozen type for each kind of example.

Every example carries `where`, the "file:line" that it comes from, so that errors can point to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Document:
    """Running text, for language models.

    Attributes:
        text: the text.
        where: where it comes from.
        held_out: whether it is the end of a single text, which is held out for validation, or the rest of it; None for
            documents that are held out whole.
    """

    text: str
    where: str = ""
    held_out: bool | None = None


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
        labels: one name, or any number of names in multi-label data.
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
    """The words of a sentence and their tags: IOB2 for entities and chunks, plain for parts of speech."""

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
        pixels: one grey channel, or red, green and blue. Shape: [C, H, W], uint8.
        label: the name of the class.
        where: the place in the file.
    """

    pixels: NDArray[np.uint8]
    label: str
    where: str = ""
