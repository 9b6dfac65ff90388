"""Small self-contained SVG pictures: they draw their own light background and load nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from qkv.exams.report.charts import ticks
from qkv.insight.svg import FAINT
from qkv.insight.svg_text import FONT, GROUND, INK

Point = tuple[float, float]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00")  # Okabe & Ito's, readable with colour blindness
WIDTH, HEIGHT = 620, 310
LEFT, TOP, BOTTOM = 64, 58, 46


@dataclass(frozen=True)
class Line:
    """A named line of a chart."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Axis:
    """One axis of a chart.

    Attributes:
        name: what it measures.
        log: the base of a logarithmic axis, or 0 for a linear one.
        low: the smallest value shown; that of the data if None.
        high: the largest value shown; that of the data if None.
    """

    name: str
    log: int = 0
    low: float | None = None
    high: float | None = None

    def over(self, values: Sequence[float]) -> Axis:
        """Return the axis with both of its ends."""
        low = min(values) if self.low is None else self.low
        return replace(self, low=low, high=max(values) if self.high is None else self.high)

    def share(self, value: float) -> float:
        """Return where a value is, from 0 at the lower end to 1 at the upper one."""
        assert self.low is not None
        assert self.high is not None
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def marks(self) -> list[tuple[float, str]]:
        """Return the values to mark, with their names."""
        assert self.low is not None
        assert self.high is not None
        if not self.log:
            return [(value, f"{round(value, 9):g}") for value in ticks(self.low, self.high)]
        first, last = (math.log(end) / math.log(self.log) for end in (self.low, self.high))
        powers = range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)
        step = max(1, math.ceil(len(powers) / 7))
        return [(self.log**power, power_name(self.log, power)) for power in powers[::step]]


def chart(title: str, lines: Sequence[Line], x: Axis, y: Axis, *, right: int = 150) -> str:
    """Draw lines over common axes; the name of each line stands at its end, `right` pixels wide."""
    x = x.over([point[0] for line in lines for point in line.points])
    y = y.over([point[1] for line in lines for point in line.points])
    across, up = WIDTH - LEFT - right, HEIGHT - TOP - BOTTOM

    def at(point: Point) -> Point:
        return LEFT + across * x.share(point[0]), TOP + up * (1 - y.share(point[1]))

    body = [_grid(x, y, across, up)]
    ends = [at(line.points[-1])[1] for line in lines]
    for line, colour, height in zip(lines, COLOURS, _apart(ends), strict=False):
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in map(at, line.points))
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        body.append(text(line.name, at(line.points[-1])[0] + 8, height + 4, colour=colour, bold=True))
    return page(title, WIDTH, HEIGHT, body)


def page(title: str, width: float, height: float, body: Sequence[str]) -> str:
    """Return a whole picture: its title, its background and its parts."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" font-family="ui-sans-serif, system-ui, sans-serif" font-size="{FONT}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:g}" height="{height:g}" fill="{GROUND}"/>',
        text(title, 12, 22, bold=True),
        *body,
        "</svg>\n",
    ])  # fmt: skip


def text(
    words: str, x: float, y: float, *, colour: str = INK, anchor: str = "start", bold: bool = False, size: int = FONT
) -> str:
    """Write a line of text."""
    weight = ' font-weight="bold"' if bold else ""
    small = f' font-size="{size}"' if size != FONT else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}"{weight}{small}>{escape(words)}</text>'


def stroke(start: Point, end: Point, colour: str = FAINT, width: float = 1) -> str:
    """Draw a straight line."""
    (x1, y1), (x2, y2) = start, end
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} stroke="{colour}" stroke-width="{width:g}"/>'


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    """Draw a filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def inside(picture: str, x: float, y: float) -> str:
    """Place a whole picture inside another one."""
    return picture.replace("<svg ", f'<svg x="{x:g}" y="{y:g}" ', 1)


def power_name(base: int, power: int) -> str:
    """Write a power of ten with its exponent, other numbers in full."""
    if base == 10 and abs(power) > 3:
        return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{base**power:,g}" if power < 0 else f"{base**power:,}"


def _grid(x: Axis, y: Axis, across: float, up: float) -> str:
    parts = []
    for value, name in y.marks():
        height = TOP + up * (1 - y.share(value))
        parts.append(stroke((LEFT, height), (LEFT + across, height)))
        parts.append(text(name, LEFT - 8, height + 4, anchor="end"))
    for value, name in x.marks():
        place = LEFT + across * x.share(value)
        parts.append(stroke((place, TOP + up), (place, TOP + up + 4)))
        parts.append(text(name, place, TOP + up + 18, anchor="middle"))
    parts.append(text(x.name, LEFT + across, HEIGHT - 8, anchor="end"))
    parts.append(text(y.name, 12, 41, size=11))
    return "\n".join(parts)


def _apart(heights: Sequence[float], least: float = 16) -> list[float]:
    """Move labels up, from the lowest one, so that none covers another."""
    found, last = list(heights), math.inf
    for place in sorted(range(len(heights)), key=heights.__getitem__, reverse=True):
        found[place] = last = min(heights[place], last - least)
    return found
