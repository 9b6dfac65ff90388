"""Attention as one self-contained SVG, for a web page or a paper."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import escape
from pathlib import Path

from torch import Tensor

from qkv.insight.terminal import label, table

CELL, FONT, GAP = 24, 13, 8  # in pixels
# The background is drawn too, so that the plot looks the same on a light and on a dark page.
GROUND, INK, FAINT, DEEP = "#ffffff", "#1a1a1a", "#d0d7de", "#08306b"


def svg(weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str = "") -> str:
    """Draw one attention matrix: queries on the left, keys above. Shape of the weights: [L, S]."""
    values = table(weights, rows, columns)
    rows, columns = [label(name) for name in rows], [label(name) for name in columns]
    left = 2 * GAP + max(map(_width, rows))
    turned = max(map(_width, columns)) > CELL - 2
    top = GAP + (2 * FONT if title else 0) + (round(max(map(_width, columns)) * 0.8) + FONT if turned else FONT + GAP)
    # Names that lean to the right need room after the last column.
    overhang = round(max(_width(name) - CELL * (len(columns) - 1 - i) for i, name in enumerate(columns)) * 0.8)
    width = max(left + CELL * len(columns) + max(GAP, overhang if turned else 0), 2 * GAP + _width(title))
    height = top + CELL * len(rows) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="ui-sans-serif, system-ui, sans-serif" font-size="{FONT}">',
        f"<title>{_escaped(title or 'attention')}</title>",
        f'<rect width="{width}" height="{height}" fill="{GROUND}"/>',
        _text(title, GAP, GAP + FONT, weight="bold") if title else "",
        *(_column(name, left + CELL * i, top, turned) for i, name in enumerate(columns)),
        *(_row(name, left, top + CELL * i, values[i], columns) for i, name in enumerate(rows)),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def save(path: str | Path, weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str = "") -> Path:
    """Write the plot of one attention matrix to a file."""
    file = Path(path)
    file.write_text(svg(weights, rows, columns, title), encoding="utf-8")
    return file


def _column(name: str, x: int, top: int, turned: bool) -> str:
    """Write a name above its column, slanted if it is wider than the column."""
    middle = x + CELL // 2
    if not turned:
        return _text(name, middle, top - GAP, anchor="middle")
    return _text(name, middle + 3, top - 6, turn=-50)


def _row(name: str, left: int, y: int, values: Sequence[float], columns: Sequence[str]) -> str:
    """Write a name and its cells; each cell shows its weight as a tooltip."""
    cells = [
        f'<rect x="{left + CELL * i}" y="{y}" width="{CELL}" height="{CELL}" fill="{DEEP}" fill-opacity="{value:.3f}" '
        f'stroke="{FAINT}" stroke-width="1"><title>{_escaped(f"{name} → {columns[i]}: {value:.1%}")}</title></rect>'
        for i, value in enumerate(values)
    ]
    return "\n".join([_text(name, left - GAP, y + CELL // 2 + FONT // 3, anchor="end"), *cells])


def _text(words: str, x: int, y: int, *, anchor: str = "start", turn: int = 0, weight: str = "normal") -> str:
    place = f'x="{x}" y="{y}"' + (f' transform="rotate({turn} {x} {y})"' if turn else "")
    return f'<text {place} fill="{INK}" text-anchor="{anchor}" font-weight="{weight}">{_escaped(words)}</text>'


def _width(words: str) -> int:
    """Estimate the width in pixels: wide scripts take a whole em, others a little more than half."""
    ems = sum(1.0 if unicodedata.east_asian_width(sign) in "WF" else 0.62 for sign in words)
    return round(ems * FONT)


def _escaped(words: str) -> str:
    """Write text so that XML can hold it: markup is escaped, characters that XML forbids are replaced."""
    allowed = (sign if sign.isprintable() else " " if sign.isspace() else "\ufffd" for sign in words)
    return escape("".join(allowed))
