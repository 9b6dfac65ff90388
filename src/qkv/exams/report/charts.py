"""Charts as inline SVG. Colours are variables of the page, so that they follow its light or dark mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.exams.report.markup import escaped

WIDTH, HEIGHT = 460, 240
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 12, 32
MOST = 300  # points of a line; more are averaged

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """A named line; `style` is its class in the style sheet."""

    name: str
    points: Sequence[Point]
    style: str = "one"


@dataclass(frozen=True)
class Frame:
    """The part of the plane that a chart shows, and its place in the picture."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, point: Point) -> Point:
        """Return the place of a point in the picture."""
        (x0, x1), (y0, y1) = self.x, self.y
        across, up = (point[0] - x0) / (x1 - x0), (point[1] - y0) / (y1 - y0)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)


def lines(series: Sequence[Series], across: str = "step") -> str:
    """Draw lines over a common axis; nothing if there is no line with two points."""
    drawn = [Series(one.name, _thinned(_finite(one.points)), one.style) for one in series]
    drawn = [one for one in drawn if one.points]
    if not any(len(one.points) > 1 for one in drawn):
        return ""
    frame = _frame([point for one in drawn for point in one.points])
    body = "".join(_line(one, frame) for one in drawn)
    several = drawn if len(drawn) > 1 else []
    legend = "".join(f'<span class="key {one.style}">{escaped(one.name)}</span>' for one in several)
    return _figure(_axes(frame, across) + body, ", ".join(one.name for one in drawn), legend)


def reliability(bins: Sequence[tuple[float, float, int]]) -> str:
    """Draw accuracy over probability, a dot for each bin whose area is its share of the answers."""
    frame, total = Frame((0.0, 1.0), (0.0, 1.0)), max(sum(count for *_, count in bins), 1)
    places = [frame.at((chance, accuracy)) for chance, accuracy, _ in bins]
    parts = [_ideal(frame), f'<polyline class="line one" points="{_points(places)}"/>']
    for place, (chance, accuracy, count) in zip(places, bins, strict=True):
        told = f"{count:,} answers with probability {chance:.2f}: {accuracy:.1%} correct"
        parts.append(_dot("one", place, 3 + 13 * math.sqrt(count / total), told))
    return _figure(_axes(frame, "probability", "correct") + "".join(parts), "reliability diagram")


def scatter(points: Sequence[Point]) -> str:
    """Draw predicted over correct numbers."""
    found = _finite(points)
    if len(found) < 2:
        return ""
    values = [value for point in found for value in point]
    low, high = _room(min(values), max(values))
    frame = Frame((low, high), (low, high))
    dots = (_dot("one", frame.at((a, b)), 3.5, f"correct {a:.4g}, predicted {b:.4g}") for a, b in found)
    axes = _axes(frame, "correct", "predicted")
    return _figure(axes + _ideal(frame) + "".join(dots), "predicted over correct numbers")


def _figure(body: str, title: str, legend: str = "") -> str:
    drawn = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escaped(title)}">{body}</svg>'
    return f"<figure>{drawn}{f'<figcaption>{legend}</figcaption>' if legend else ''}</figure>"


def _dot(style: str, place: Point, radius: float, told: str) -> str:
    x, y = place
    told = f"<title>{escaped(told)}</title>"
    return f'<circle class="dot {style}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">{told}</circle>'


def _ideal(frame: Frame) -> str:
    """Draw the diagonal from corner to corner."""
    (x0, y0), (x1, y1) = frame.at((frame.x[0], frame.y[0])), frame.at((frame.x[1], frame.y[1]))
    return f'<line class="ideal" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/>'


def _line(series: Series, frame: Frame) -> str:
    places = [frame.at(point) for point in series.points]
    drawn = f'<polyline class="line {series.style}" points="{_points(places)}"/>'
    if len(places) > 40:
        return drawn
    dots = (
        _dot(series.style, place, 3, f"{series.name} at {step:,.0f}: {value:.4g}")
        for place, (step, value) in zip(places, series.points, strict=True)
    )
    return drawn + "".join(dots)


def _axes(frame: Frame, across: str, up: str = "") -> str:
    """Draw the grid with its numbers."""
    parts = []
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for value in ticks(*frame.y):
        y = frame.at((frame.x[0], value))[1]
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>')
    for value in ticks(*frame.x, count=6):
        x = frame.at((value, frame.y[0]))[0]
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{_short(value)}</text>')
    parts.append(f'<text class="axis" x="{right}" y="{HEIGHT - 2}" text-anchor="end">{escaped(across)}</text>')
    if up:
        parts.append(f'<text class="axis" x="{LEFT + 6}" y="{TOP + 10}">{escaped(up)}</text>')
    return "".join(parts)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers from `low` to `high`."""
    step = _step(low, high, count)
    return [step * n for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _step(low: float, high: float, count: int) -> float:
    """Return a round distance that cuts an interval into about `count` parts."""
    rough = (high - low) / max(count - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * times for times in (1, 2, 2.5, 5, 10) if power * times >= rough * 0.999)


def _frame(points: Sequence[Point]) -> Frame:
    across, up = [x for x, _ in points], [y for _, y in points]
    low, high = min(across), max(across)
    return Frame((low, high if high > low else low + 1), _room(min(up), max(up)))


def _room(low: float, high: float) -> tuple[float, float]:
    """Return a round interval around some values."""
    spare = 0.0 if high > low else max(abs(high), 1e-6) * 0.1
    low, high = low - spare, high + spare
    step = _step(low, high, 5)
    return step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Average neighbours if there are more points than a line can show; the last one stays."""
    size = -(-len(points) // MOST)
    if size <= 1:
        return list(points)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [*((group[-1][0], sum(y for _, y in group) / len(group)) for group in groups[:-1]), points[-1]]


def _finite(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if all(map(math.isfinite, point))]


def _points(places: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _short(value: float) -> str:
    """Write a tick: 20k for 20,000, and no more digits than needed."""
    if abs(value) >= 10_000:
        return f"{value / 1e6:g}M" if abs(value) >= 1e6 else f"{value / 1e3:g}k"
    return f"{round(value, 10):.4g}"
