"""The targets of `qkv shrink`, and which of several models meets them best.

5 ms        one answer takes at most this long, in the median
10 MB       the weights take at most this much room
-1 point    the score loses at most this much: a hundredth of a score from 0 to 1, a whole point of BLEU
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.common.errors import UsageError, show

ALLOWED = 'such as "5 ms" for an answer, "10 MB" for the weights or "-1 point" for the score'
MS, MB, POINTS = "ms", "MB", "points"
UNITS = {"ms": MS, "mb": MB, "point": POINTS, "points": POINTS}
FORM = re.compile(r"(-?)\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-z]+)", re.IGNORECASE | re.ASCII)
ALIKE = 1.05  # times as slow: the timing of two models of the same speed differs by less


@dataclass(frozen=True)
class Target:
    """An upper limit.

    Attributes:
        unit: what is limited: ms, MB or points.
        limit: in this unit; of points, how many may be lost.
    """

    unit: str
    limit: float

    def __str__(self) -> str:
        if self.unit == POINTS:
            return f"-{self.limit:g} point{'' if self.limit == 1 else 's'}"
        return f"{self.limit:g} {self.unit}"

    def value(self, row: Row) -> float:
        """Return the number of a model in this unit."""
        return {MS: row.milliseconds, MB: row.megabytes, POINTS: row.lost}[self.unit]

    def excess(self, row: Row) -> float:
        """Return by how much a model is above the limit, 0 if it is not."""
        value = self.value(row)
        return math.inf if math.isnan(value) else max(0.0, value - self.limit)

    def missed(self, row: Row) -> str:
        """Say by how much a model is above the limit."""
        by = self.excess(row)
        if self.unit == POINTS:
            return f"{by:.2g} points below the limit" if math.isfinite(by) else "its score is undefined"
        return f"{by:.2g} {self.unit} {'too slow' if self.unit == MS else 'too large'}"


@dataclass(frozen=True)
class Row:
    """The numbers of a model that targets limit.

    Attributes:
        name: its name.
        lost: the points that its score lost; below 0 if it is better than the model as it was, nan if undefined.
        milliseconds: of one answer, the median.
        megabytes: of its weights.
    """

    name: str
    lost: float
    milliseconds: float
    megabytes: float


@dataclass(frozen=True)
class Choice:
    """A model that meets all targets, or the one that comes nearest.

    Attributes:
        row: the model.
        missed: the targets that it does not meet.
    """

    row: Row
    missed: tuple[Target, ...] = ()


def parse_targets(texts: Sequence[str]) -> tuple[Target, ...]:
    """Read targets, at least one."""
    if not texts:
        raise UsageError(f"name a target, {ALLOWED}")
    return tuple(map(parse_target, texts))


def parse_target(text: str) -> Target:
    """Read a target: a number and ms or MB, or a loss in points, which begins with a minus."""
    found = FORM.fullmatch(text.strip())
    unit = UNITS.get(found[3].lower()) if found else None
    limit = float(found[2]) if found else math.nan
    if found is None or unit is None or bool(found[1]) != (unit == POINTS) or not math.isfinite(limit):
        raise UsageError(f"a target is {ALLOWED}, got {show(text)}")
    if unit != POINTS and not limit:
        raise UsageError(f"a target must be above 0, got {show(text)}")
    return Target(unit, limit)


def choose(rows: Sequence[Row], targets: Sequence[Target]) -> Choice:
    """Choose a model.

    Of those that meet all targets, the one with the best score; ties by speed, then by size. Where only the score is
    limited, the fastest one; of those that are about as fast, the smallest. If none meets them, the nearest one.
    """
    able = [row for row in rows if not any(target.excess(row) for target in targets)]
    if not able:
        nearest = min(rows, key=lambda row: (_distance(row, targets), *_rank(row)))
        return Choice(nearest, tuple(target for target in targets if target.excess(nearest)))
    if any(target.unit != POINTS for target in targets):
        return Choice(min(able, key=_rank))
    limit = ALIKE * min(row.milliseconds for row in able)
    alike = [row for row in able if row.milliseconds <= limit]
    return Choice(min(alike, key=lambda row: (row.megabytes, row.milliseconds, _lost(row))))


def frontier(rows: Sequence[Row], unit: str) -> list[Row]:
    """Return the models that no other one beats in both its score and in ms or MB, from the cheapest up."""
    cost = Target(unit, 0).value
    found: list[Row] = []
    for row in sorted(rows, key=lambda row: (cost(row), _lost(row))):
        if not math.isnan(row.lost) and (not found or row.lost < found[-1].lost):
            found.append(row)
    return found


def _lost(row: Row) -> float:
    return math.inf if math.isnan(row.lost) else row.lost


def _rank(row: Row) -> tuple[float, float, float]:
    return _lost(row), row.milliseconds, row.megabytes


def _distance(row: Row, targets: Sequence[Target]) -> float:
    """Add up what is above each limit: as a share of the limit, and for points, which can be 0, at least of one."""
    return sum(
        target.excess(row) / (max(target.limit, 1.0) if target.unit == POINTS else target.limit) for target in targets
    )
