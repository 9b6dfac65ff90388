"""Numbers as people write them: 3.5 and 1e-3, with a decimal comma 3,5, or with commas between thousands 1,234.5."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

DECIMAL = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")  # 3,5 and 1.234,5
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")  # 1,234 and 1,234.5
UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,234 is both


def number_of(value: object, *, comma: bool | None = None) -> float | None:
    """Return the number that a value means, or None.

    Args:
        value: a number or its text.
        comma: whether a comma that can be both separates decimals; None if that is not known, and then it is no number.
    """
    if not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return _with_comma(str(value).strip(), comma)


def decimal_comma(values: Iterable[str]) -> bool | None:
    """Return whether commas separate decimals in a column, or None if none of its values tells."""
    for value in map(str.strip, values):
        if UNCLEAR.fullmatch(value):
            continue
        if DECIMAL.fullmatch(value) or THOUSANDS.fullmatch(value):
            return DECIMAL.fullmatch(value) is not None
    return None


def _with_comma(text: str, comma: bool | None) -> float | None:
    if UNCLEAR.fullmatch(text) and comma is None:
        return None
    if DECIMAL.fullmatch(text) and comma is not False:
        return float(text.replace(".", "").replace(",", "."))
    return float(text.replace(",", "")) if THOUSANDS.fullmatch(text) else None
