"""Random choices for one sentence, and the one it speaks to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Listener(NamedTuple):
    """Someone who is called vous, and named at the end so that English tells it too."""

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
    """Choices out of `random()` alone, whose sequence every Python keeps.

    Attributes:
        listener: who "you" is throughout the sentence; None for a man called tu.
        addressed: "you" or "your" was said.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.listener = self.pick(LISTENERS) if self.chance(0.3) else None
        self.addressed = False

    def chance(self, share: float) -> bool:
        """Return true so often."""
        return self._rng.random() < share

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[int(self._rng.random() * len(items))]

    def call(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what names the listener, if vous was said."""
        if self.listener is None or not self.addressed:
            return (), ()
        return (",", self.listener.english), (",", *self.listener.french.split())
