"""Charts as one self-contained SVG, for a web page or a paper: lines over a linear or logarithmic axis, and dots.

Colours are those of Okabe and Ito (2008), which people with colour blindness can tell apart; lines also differ in
their marks and dashes, so that a chart can be printed without colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qkv.insight.svg_text import FONT, GAP, GROUND, escaped, text_width, written

LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 50  # around a panel, in pixels
LINE = FONT + 9  # the height of a line of the legend
GRID, FAINT = "#e3e6ea", "#59636e"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9", "#7a5c00", "#8a2be2")
DASHES = ("", "7 4", "2 3")

Point = tuple[float, float]
Draw = Callable[[Point], Point]


@dataclass(frozen=True)
class Line:
    """A named line; a point with a spread gets a bar from `low` to `high`.

    Attributes:
        name: what the legend says.
        points: where the line goes; points that are not finite are left out.
        spread: the same points with low and high, or nothing.
    """

    name: str
    points: Sequence[Point]
    spread: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes:
        title: above it.
        lines: what is drawn.
        across: the name of the horizontal axis.
        up: the name of the vertical axis.
        log_x: whether equal distances are equal factors, horizontally.
        log_y: the same vertically.
        width: in pixels.
        height: in pixels.
    """

    title: str
    lines: Sequence[Line]
    across: str
    up: str
    log_x: bool = False
    log_y: bool = False
    width: int = 430
    height: int = 300


def charts(panels: Sequence[Panel], *, title: str, notes: Sequence[str] = (), columns: int = 2) -> str:
    """Draw panels side by side, with one legend for all."""
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    columns = min(columns, len(panels))
    wide, high = max(panel.width for panel in panels), max(panel.height for panel in panels)
    rows = -(-len(panels) // columns)
    side = 3 * GAP + 30 + max(map(text_width, names), default=0)
    width = max(columns * wide + side, 2 * GAP + max(map(text_width, (title, *notes))))
    top = GAP + 2 * FONT
    height = top + max(rows * high, len(names) * LINE + 2 * GAP) + LINE * len(notes) + GAP
    parts = [written(title, GAP, GAP + FONT, weight="bold")]
    for number, panel in enumerate(panels):
        x, y = number % columns * wide, top + number // columns * high
        parts.append(f'<g transform="translate({x} {y})">{_panel(panel, names)}</g>')
    for number, name in enumerate(names):
        parts.append(_key(number, name, columns * wide + GAP, top + TOP + number * LINE))
    for number, note in enumerate(notes):
        parts.append(written(note, GAP, height - GAP - (len(notes) - 1 - number) * LINE, fill=FAINT))
    return picture(parts, width, height, title)


def dots(rows: Sequence[tuple[str, Sequence[float]]], *, title: str, across: str, notes: Sequence[str] = ()) -> str:
    """Draw one row for each name: a dot for each value and a bar at their mean."""
    values = [value for _, several in rows for value in several if math.isfinite(value)] or [0.0]
    axis = _Axis.of(values, log=False)
    left = 3 * GAP + max((text_width(name) for name, _ in rows), default=0)
    width, top = left + 460 + 70, GAP + 3 * FONT
    bottom = top + len(rows) * 30
    height = bottom + 50 + LINE * len(notes)

    def place(value: float) -> float:
        return left + axis.share(value) * 460

    parts = [written(title, GAP, GAP + FONT, weight="bold")]
    for tick in axis.ticks():
        x = place(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{GRID}"/>')
        parts.append(written(_short(tick), round(x), bottom + FONT + 4, anchor="middle", fill=FAINT))
    for number, (name, several) in enumerate(rows):
        y, colour, known = top + 30 * number + 15, COLOURS[0], [value for value in several if math.isfinite(value)]
        parts.append(written(name, left - GAP, y + FONT // 3, anchor="end"))
        if not known:
            continue
        mean = sum(known) / len(known)
        parts.append(f'<line x1="{place(mean):.1f}" y1="{y - 9}" x2="{place(mean):.1f}" y2="{y + 9}" '
                     f'stroke="{COLOURS[1]}" stroke-width="2.5"/>')  # fmt: skip
        for value in known:
            told = f"<title>{escaped(f'{name}: {value:.4g}')}</title>"
            parts.append(
                f'<circle cx="{place(value):.1f}" cy="{y}" r="4.5" fill="{colour}" fill-opacity="0.7">{told}</circle>'
            )
        parts.append(written(_short(mean), left + 460 + GAP, y + FONT // 3))
    parts.append(written(across, left + 460, bottom + 2 * FONT + 10, anchor="end", fill=FAINT))
    for number, note in enumerate(notes):
        parts.append(written(note, GAP, height - GAP - (len(notes) - 1 - number) * LINE, fill=FAINT))
    width = max(width, 2 * GAP + max(map(text_width, (title, *notes))))
    return picture(parts, width, height, title)


def picture(parts: Sequence[str], width: int, height: int, title: str) -> str:
    """Put parts into an SVG that looks the same on a light and on a dark page."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="ui-sans-serif, system-ui, sans-serif" font-size="{FONT}">'
    )
    body = [f"<title>{escaped(title)}</title>", f'<rect width="{width}" height="{height}" fill="{GROUND}"/>', *parts]
    return "\n".join([head, *body, "</svg>"]) + "\n"


@dataclass(frozen=True)
class _Axis:
    """The part of an axis that is shown, in its own units."""

    low: float
    high: float
    log: bool

    @staticmethod
    def of(values: Sequence[float], *, log: bool) -> _Axis:
        low, high = min(values), max(values)
        if log:
            return _Axis(low / 1.25, high * 1.25, True)
        spare = (high - low) * 0.06 or max(abs(high), 1e-6) * 0.1
        return _Axis(low - spare, high + spare, False)

    def share(self, value: float) -> float:
        """Return where a value lies, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return round numbers to label: powers of two or ten on a logarithmic axis."""
        if self.log:
            base = 2.0 if self.high / self.low < 300 else 10.0
            first, last = math.ceil(math.log(self.low, base) - 1e-9), math.floor(math.log(self.high, base) + 1e-9)
            stride = max(1, -(-(last - first + 1) // 7))
            return [base**power for power in range(first, last + 1, stride)]
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * times for times in (1, 2, 2.5, 5, 10) if power * times >= rough * 0.999)
        return [step * n for n in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]


def _panel(panel: Panel, names: Sequence[str]) -> str:
    kept = {line.name: [point for point in line.points if _drawable(point, panel)] for line in panel.lines}
    points = [point for several in kept.values() for point in several]
    parts = [written(panel.title, LEFT, TOP - 14, weight="bold")]
    if not points:
        return "".join([*parts, written("nothing was measured", LEFT, panel.height // 2, fill=FAINT)])
    ends = [end for line in panel.lines for _, low, high in line.spread for end in (low, high)]
    across = _Axis.of([x for x, _ in points], log=panel.log_x)
    up = _Axis.of([*(y for _, y in points), *(end for end in ends if end > 0 or not panel.log_y)], log=panel.log_y)

    def at(point: Point) -> Point:
        x = LEFT + across.share(point[0]) * (panel.width - LEFT - RIGHT)
        return x, panel.height - BOTTOM - up.share(point[1]) * (panel.height - TOP - BOTTOM)

    parts.append(_axes(panel, across, up, at))
    for line in panel.lines:
        parts.append(_line(line, kept[line.name], names.index(line.name), at))
    return "".join(parts)


def _drawable(point: Point, panel: Panel) -> bool:
    x, y = point
    return math.isfinite(x) and math.isfinite(y) and (x > 0 or not panel.log_x) and (y > 0 or not panel.log_y)


def _axes(panel: Panel, across: _Axis, up: _Axis, at: Draw) -> str:
    parts = []
    for tick in up.ticks():
        _, y = at((across.low, tick))
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{panel.width - RIGHT}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(written(_short(tick), LEFT - 6, round(y) + FONT // 3, anchor="end", fill=FAINT))
    marks = sorted({x for line in panel.lines for x, _ in line.points}) if panel.log_x else across.ticks()
    for tick in marks:
        x, _ = at((tick, up.low))
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{panel.height - BOTTOM}" stroke="{GRID}"/>')
        parts.append(written(_short(tick), round(x), panel.height - BOTTOM + FONT + 4, anchor="middle", fill=FAINT))
    parts.append(
        written(panel.across, panel.width - RIGHT, panel.height - BOTTOM + 2 * FONT + 8, anchor="end", fill=FAINT)
    )
    middle = (TOP + panel.height - BOTTOM) // 2
    parts.append(written(panel.up, FONT, middle, anchor="middle", turn=-90, fill=FAINT))
    return "".join(parts)


def _line(line: Line, points: Sequence[Point], number: int, at: Draw) -> str:
    colour, dash = _style(number)
    places = [at(point) for point in points]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>']
    for across, low, high in line.spread:
        (x, top), (_, bottom) = at((across, high)), at((across, low))
        parts.append(f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="{colour}"/>')
    for (x, y), (across, value) in zip(places, points, strict=True):
        told = f"<title>{escaped(f'{line.name} at {across:g}: {value:.4g}')}</title>"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">{told}</circle>')
    return "".join(parts)


def _key(number: int, name: str, x: int, y: int) -> str:
    colour, dash = _style(number)
    return (
        f'<line x1="{x}" y1="{y - 4}" x2="{x + 26}" y2="{y - 4}" stroke="{colour}" stroke-width="2"{dash}/>'
        f'<circle cx="{x + 13}" cy="{y - 4}" r="3.5" fill="{colour}"/>' + written(name, x + 34, y)
    )


def _style(number: int) -> tuple[str, str]:
    dash = DASHES[number // len(COLOURS) % len(DASHES)] if number >= len(COLOURS) else DASHES[number % 2]
    return COLOURS[number % len(COLOURS)], f' stroke-dasharray="{dash}"' if dash else ""


def _short(value: float) -> str:
    """Write a tick with no more digits than needed."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{round(value, 12):.4g}"
