"""Lone surrogates: a Python string can contain them, for example from JSON, but UTF-8 and tokenizers cannot."""

from __future__ import annotations

import re

_LONE = re.compile(r"[\ud800-\udfff]")


def is_well_formed(text: str) -> bool:
    """Return whether a text has no surrogates, so that UTF-8 can encode it."""
    return text.isascii() or _LONE.search(text) is None


def well_formed(text: str) -> str:
    """Replace every surrogate with U+FFFD. The length of the text does not change."""
    return text if text.isascii() else _LONE.sub("\ufffd", text)
