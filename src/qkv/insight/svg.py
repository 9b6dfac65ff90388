"""Attention as one self-contained SVG, for a web page or a paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from qkv.insight.svg_text import FONT, GAP, GROUND, escaped, text_width, written
from qkv.insight.terminal import label, table

CELL = 24  # in pixels
FAINT, DEEP = "#d0d7de", "#08306b"


def svg(weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str = "") -> str:
    """Draw one attention matrix: queries on the left, keys above. Shape of the weights: [L, S]."""
    values = table(weights, rows, columns)
    rows, columns = [label(name) for name in rows], [label(name) for name in columns]
    left = 2 * GAP + max(map(text_width, rows))
    turned = max(map(text_width, columns)) > CELL - 2
    top = (
        GAP + (2 * FONT if title else 0) + (round(max(map(text_width, columns)) * 0.8) + FONT if turned else FONT + GAP)
    )
    # Names that lean to the right need room after the last column.
    overhang = round(max(text_width(name) - CELL * (len(columns) - 1 - i) for i, name in enumerate(columns)) * 0.8)
    width = max(left + CELL * len(columns) + max(GAP, overhang if turned else 0), 2 * GAP + text_width(title))
    height = top + CELL * len(rows) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="ui-sans-serif, system-ui, sans-serif" font-size="{FONT}">',
        f"<title>{escaped(title or 'attention')}</title>",
        f'<rect width="{width}" height="{height}" fill="{GROUND}"/>',
        written(title, GAP, GAP + FONT, weight="bold") if title else "",
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
        return written(name, middle, top - GAP, anchor="middle")
    return written(name, middle + 3, top - 6, turn=-50)


def _row(name: str, left: int, y: int, values: Sequence[float], columns: Sequence[str]) -> str:
    """Write a name and its cells; each cell shows its weight as a tooltip."""
    cells = [
        f'<rect x="{left + CELL * i}" y="{y}" width="{CELL}" height="{CELL}" fill="{DEEP}" fill-opacity="{value:.3f}" '
        f'stroke="{FAINT}" stroke-width="1"><title>{escaped(f"{name} → {columns[i]}: {value:.1%}")}</title></rect>'
        for i, value in enumerate(values)
    ]
    return "\n".join([written(name, left - GAP, y + CELL // 2 + FONT // 3, anchor="end"), *cells])
