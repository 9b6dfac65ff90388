"""Which engine to use, from what was measured.

Engines that change the numbers are not recommended over exact ones, but mentioned with how well their answers agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.predict.latency.result import Recommendation, Side, Timing

DECISIVE = 1.05  # times as fast: less is not worth leaving the engine that a model is loaded with


def recommended(
    sides: Sequence[Side], timings: Sequence[Timing], *, default: str, agreement: str, unit: str
) -> Recommendation:
    """Choose engines for the smallest and the largest batch.

    Args:
        sides: the engines.
        timings: theirs.
        default: the engine that runs the model as it was loaded.
        agreement: how answers were compared.
        unit: what an input is: text or image.
    """
    sizes = sorted({one.batch for one in timings})
    places = [Place(timings, batch, unit) for batch in dict.fromkeys((sizes[0], sizes[-1]))]
    exact, changing = ([side for side in sides if side.exact is wanted] for wanted in (True, False))
    best = [place.best(exact or changing, default) for place in places]
    text = _told(best, places, exact or changing)
    if not exact:
        changed = " and ".join(_changes(side, agreement) for side in dict.fromkeys(best))
        return Recommendation(None, None, best[0].name, f"{text} But {changed}.")
    gains = {side: [place.ratio(side, other) for place, other in zip(places, best, strict=True)] for side in changing}
    faster = max(gains, key=lambda side: max(gains[side]), default=None)
    if faster is None or max(gains[faster]) < DECISIVE:
        return Recommendation(best[0].name, best[-1].name, None, text)
    gained = " and ".join(
        f"{gain:.2g} times as fast {place}"
        for place, gain in zip(places, gains[faster], strict=True)
        if gain >= DECISIVE
    )
    text += f" {faster.name}, {faster.how}, is {gained}, but {_changes(faster, agreement, it=True)}: "
    text += "use it if `qkv evaluate` shows that the quality holds."
    return Recommendation(best[0].name, best[-1].name, faster.name, text)


@dataclass(frozen=True)
class Place:
    """A batch size at which engines are compared, over all lengths.

    Attributes:
        timings: all that were measured.
        batch: the size.
        unit: what an input is: text or image.
    """

    timings: Sequence[Timing]
    batch: int
    unit: str

    def __str__(self) -> str:
        return f"for one {self.unit}" if self.batch == 1 else f"in batches of {self.batch}"

    def ratio(self, one: Side, other: Side) -> float:
        """Return how many times as fast as another an engine is: the geometric mean over lengths, of medians."""
        mine, theirs = self._of(one), self._of(other)
        logs = [math.log(b.p50_ms / a.p50_ms) for a, b in zip(mine, theirs, strict=True)]
        return math.exp(sum(logs) / len(logs))

    def best(self, sides: Sequence[Side], default: str) -> Side:
        """Return the fastest engine, or the default one unless another is clearly faster."""
        found = self.fastest(sides)
        base = next((side for side in sides if side.name == default), found)
        return found if self.ratio(found, base) >= DECISIVE else base

    def fastest(self, sides: Sequence[Side]) -> Side:
        """Return the fastest engine."""
        return max(sides, key=lambda side: self.ratio(side, sides[0]))

    def reason(self, side: Side) -> str:
        """Say how fast an engine is at the shortest length."""
        one = self._of(side)[0]
        at = "" if one.length is None else f" at {one.length} tokens"
        time = f"p50 {one.p50_ms:.3g} ms" if self.batch == 1 else f"{rate(one.per_second)} {self.unit}s per second"
        return f"{self} ({time}{at})"

    def _of(self, side: Side) -> list[Timing]:
        """Return the timings of an engine, in the order of lengths."""
        return [one for one in self.timings if (one.engine, one.batch) == (side.name, self.batch)]


def rate(per_second: float) -> str:
    """Write how many a second with three digits, or all before the point."""
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"


def _told(best: Sequence[Side], places: Sequence[Place], among: Sequence[Side]) -> str:
    """Say which engines to use, and why."""
    near = f"within {DECISIVE - 1:.0%} of the fastest"
    told = [
        f"{'the fastest' if place.fastest(among) is side else near} {place.reason(side)}"
        for side, place in zip(best, places, strict=True)
    ]
    kept = "of the engines that keep the numbers, " if best[0].exact else ""
    if len(set(best)) == 1:
        return f"Use {best[0].name}, {best[0].how}: {kept}it is {' and '.join(told)}."
    uses = [f"{side.name} ({side.how}) is {reason}" for side, reason in zip(best, told, strict=True)]
    return f"{kept.capitalize()}{', and '.join(uses)}."


def _changes(side: Side, agreement: str, *, it: bool = False) -> str:
    """Say how far an engine changes the numbers."""
    known = "not compared with float32" if side.agreement is None else f"{agreement} with float32: {side.agreement:.4f}"
    return f"{'' if it else side.name + ' '}changes the numbers ({known})"
