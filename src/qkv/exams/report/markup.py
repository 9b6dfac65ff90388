"""Pieces of HTML. Every text that comes from outside goes through `escaped`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from qkv.common.terminal import one_line

SHOWN = 600  # characters of a text that are shown at once


def escaped(text: object) -> str:
    """Escape markup, and control characters as a terminal would show them."""
    return escape(one_line(str(text)))


def quoted(text: str, limit: int = SHOWN) -> str:
    """Return a text of the user: its direction is its own, and the rest of a long one opens on a click."""
    whole = f'<bdi dir="auto">{escaped(text)}</bdi>'
    if len(text) <= limit:
        return whole
    start = f'<bdi dir="auto">{escaped(text[:limit])}…</bdi>'
    return f"<details><summary>{start} <em>({len(text):,} characters)</em></summary>{whole}</details>"


def section(name: str, title: str, body: str, lead: str = "") -> str:
    """Return a section with a heading and one sentence about it, or nothing if it is empty."""
    if not body:
        return ""
    told = f'<p class="lead">{lead}</p>' if lead else ""
    return f'<section id="{name}"><h2>{title}</h2>{told}{body}</section>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already; all columns but the first are numbers."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = []
    for first, *cells in rows:
        lines.append(f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>')
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and values, which are HTML already."""
    return "<dl>" + "".join(f"<div><dt>{escaped(name)}</dt><dd>{value}</dd></div>" for name, value in rows) + "</dl>"
