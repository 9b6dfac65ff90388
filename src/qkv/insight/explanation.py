"""Explanations: how much each word of a text adds to an answer, measured in two ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from qkv.common import disk
from qkv.common.errors import system_errors
from qkv.insight.agreement import agreement


@dataclass(frozen=True)
class WordEffect:
    """A word and what it adds to the score of the answer; below 0 if it speaks against the answer.

    Attributes:
        text: the word.
        start: its first character in its text.
        end: the character after its last.
        side: 0 for the first text, 1 for the second of a pair (the context of a question).
        gradient: by integrated gradients. Over all words they add up to the score minus the baseline's.
        left_out: by how much the score falls without the word.
    """

    text: str
    start: int
    end: int
    side: int
    gradient: float
    left_out: float

    def to_dict(self) -> dict[str, Any]:
        """Return the word for JSON."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The words behind one answer.

    Attributes:
        number: which of the texts, from 0.
        texts: the text, or both texts of a pair.
        verb: what the model did: classify, tag, answer, fill, translate or next.
        answer: what it said.
        place: where the answer is, in characters of its text, if it is at a place: an entity, a mask or a span.
        probability: of the answer, or None.
        score: what the words add to, on `scale`.
        baseline: the score of the same input with every word blanked out.
        scale: log-odds, log-probability or number.
        words: every word that the model read.
        steps: points of the integral.
    """

    number: int
    texts: tuple[str, ...]
    verb: str
    answer: str
    place: tuple[int, int] | None = None
    probability: float | None = None
    score: float
    baseline: float
    scale: str
    words: tuple[WordEffect, ...]
    steps: int

    @property
    def text(self) -> str:
        """The text, the first of a pair."""
        return self.texts[0]

    @property
    def gap(self) -> float:
        """The completeness check: what the gradients add up to, minus what they should; 0 is perfect."""
        return sum(word.gradient for word in self.words) - (self.score - self.baseline)

    @property
    def agreement(self) -> float | None:
        """The rank correlation of both measurements, or None if there are fewer than three words."""
        return agreement([w.gradient for w in self.words], [w.left_out for w in self.words])

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation for JSON."""
        names = ("number", "texts", "verb", "answer", "place", "probability", "scale", "score", "baseline", "gap")
        found = {name: getattr(self, name) for name in (*names, "agreement", "steps")}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()} | {
            "words": [word.to_dict() for word in self.words]
        }


@dataclass(frozen=True)
class ClassWord:
    """A word and what it adds to a class, over all texts that the model gave this class.

    Attributes:
        word: in lower case.
        count: how often it occurs.
        gradient: the mean of its effects by integrated gradients.
        left_out: the mean of its effects by leaving it out.
    """

    word: str
    count: int
    gradient: float
    left_out: float

    def to_dict(self) -> dict[str, Any]:
        """Return the word for JSON."""
        return dict(self.__dict__)


RARE = 2.0  # a word's mean counts as if it had occurred this often more, with no effect


@dataclass(frozen=True)
class Explanations:
    """The explanations of some texts, in order; a text with several answers has several.

    Attributes:
        found: the explanations.
        count: the number of texts.
    """

    found: tuple[Explanation, ...]
    count: int

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, number: int) -> Explanation:
        return self.found[number]

    def __add__(self, more: Explanations) -> Explanations:
        moved = (replace(one, number=one.number + self.count) for one in more.found)
        return Explanations((*self.found, *moved), self.count + more.count)

    @property
    def has_classes(self) -> bool:
        """Whether these are the labels, or the numbers, of several texts: then a table over all of them makes sense."""
        return self.count > 1 and bool(self.found) and all(one.verb == "classify" for one in self.found)

    @cached_property
    def by_answer(self) -> dict[str, list[ClassWord]]:
        """The words that add most to each label, or to the number, most first: a table of a classifier's reasons.

        Words are ranked by both measurements together: the mean of their effects, shrunk towards 0 if they are rare.
        """
        groups: dict[str, list[Explanation]] = {}
        for one in self.found:
            groups.setdefault("number" if one.scale == "number" else one.answer, []).append(one)
        return {answer: _ranked([word for one in groups[answer] for word in one.words]) for answer in sorted(groups)}

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {"explanations": [one.to_dict() for one in self.found]}

    def to_html(self) -> str:
        """Return one self-contained page; see `save`."""
        from qkv.insight.explanation_page import page

        return page(self)

    def _repr_html_(self) -> str:
        """Show itself in a notebook."""
        from qkv.insight.explanation_page import fragment

        return fragment(self)

    @system_errors()
    def save(self, path: str | Path) -> Path:
        """Write an HTML page that needs no network and runs no script."""
        file = Path(path)
        disk.replace_file(file, self.to_html().encode("utf-8", "replace"))
        return file


def _ranked(words: Sequence[WordEffect]) -> list[ClassWord]:
    groups: dict[str, list[WordEffect]] = {}
    for word in words:
        if any(sign.isalnum() for sign in word.text):
            groups.setdefault(word.text.lower(), []).append(word)
    found = [
        ClassWord(name, len(some), sum(w.gradient for w in some) / len(some), sum(w.left_out for w in some) / len(some))
        for name, some in groups.items()
    ]
    found = [one for one in found if one.gradient + one.left_out > 0]  # the others speak against the class
    return sorted(found, key=lambda one: -(one.gradient + one.left_out) * one.count / (one.count + RARE))
