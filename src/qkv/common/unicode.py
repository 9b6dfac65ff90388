"""Lone surrogates: code points that a Python string can hold (JSON can write them) and UTF-8 and tokenizers cannot."""

from __future__ import annotations

import re

_LONE = re.compile(r"[\ud800-\udfff]")


def is_well_formed(text: str) -> bool:
    """Tell whether a text holds no surrogate, so that it can be encoded."""
    return text.isascii() or _LONE.search(text) is None


def well_formed(text: str) -> str:
    """Replace every surrogate with U+FFFD; all other characters stay where they are."""
    return text if text.isascii() else _LONE.sub("\ufffd", text)
