"""Random choices for one sentence, and the person it addresses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Listener(NamedTuple):
    """Someone addressed as vous, and named at the end so that the English shows it too."""

    english: str
    french: str
    female: bool
    plural: bool


LISTENERS = (
    Listener("sir", "monsieur", female=False, plural=False),
    Listener("madam", "madame", female=True, plural=False),
    Listener("children", "les enfants", female=False, plural=True),
)


class Dice:
    """Choices made with `random()` alone, whose sequence is the same in every version of Python.

    Attributes:
        listener: who "you" is in the sentence; None for a man addressed as tu.
        addressed: whether the sentence contains "you" or "your".
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.listener = self.pick(LISTENERS) if self.chance(0.3) else None
        self.addressed = False

    def chance(self, share: float) -> bool:
        """Return true with this probability."""
        return self._rng.random() < share

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[int(self._rng.random() * len(items))]

    def call(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the words that name the listener, if the sentence uses vous."""
        if self.listener is None or not self.addressed:
            return (), ()
        return (",", self.listener.english), (",", *self.listener.french.split())
