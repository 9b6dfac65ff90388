"""Text in an SVG: its place, its width, and what XML cannot hold."""

from __future__ import annotations

import unicodedata
from html import escape

FONT, GAP = 13, 8  # in pixels
# The background is drawn too, so that a picture looks the same on a light and on a dark page.
GROUND, INK = "#ffffff", "#1a1a1a"


def written(
    words: str, x: int, y: int, *, anchor: str = "start", turn: int = 0, weight: str = "normal", fill: str = INK
) -> str:
    """Write a text at a place."""
    place = f'x="{x}" y="{y}"' + (f' transform="rotate({turn} {x} {y})"' if turn else "")
    return f'<text {place} fill="{fill}" text-anchor="{anchor}" font-weight="{weight}">{escaped(words)}</text>'


def text_width(words: str) -> int:
    """Estimate the width in pixels: wide scripts take a whole em, others a little more than half."""
    ems = sum(1.0 if unicodedata.east_asian_width(sign) in "WF" else 0.62 for sign in words)
    return round(ems * FONT)


def escaped(words: str) -> str:
    """Write text so that XML can hold it: markup is escaped, characters that XML forbids are replaced."""
    allowed = (sign if sign.isprintable() else " " if sign.isspace() else "\ufffd" for sign in words)
    return escape("".join(allowed))
