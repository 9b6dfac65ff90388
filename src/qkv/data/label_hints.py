"""Labels that look like something else than classes: numbers to predict, or lists of labels."""

from __future__ import annotations

from collections.abc import Mapping

from qkv.data.numbers import number_of
from qkv.data.tables import shorten

SEPARATORS = (",", ";", "|")
MANY = 20  # whole numbers; ratings and star counts have fewer


def label_hint(counts: Mapping[str, int], *, multi_label: bool) -> str:
    """Return a hint at another recipe or key, or an empty string.

    Args:
        counts: how often each label occurs.
        multi_label: whether an example can have several labels already.
    """
    numbers = [number_of(label, comma=True) for label in counts]
    if None not in numbers and (len(counts) > MANY or any(number and number % 1 for number in numbers)):
        some = ", ".join(list(counts)[:3])
        return f"the {len(counts)} labels are numbers ({some}, ...): to predict a number, use the recipe regress"
    separator = "" if multi_label else _separator(counts)
    if separator:
        example = shorten(next(label for label in counts if separator in label))
        how = f"if an example can have several labels, set data.separator={separator}"
        return f"labels such as {example!r} look like lists: {how}"
    return ""


def _separator(counts: Mapping[str, int]) -> str:
    """Return the separator whose parts are fewer than the labels themselves, so that they repeat."""
    for separator in SEPARATORS:
        parts = {part.strip() for label in counts for part in label.split(separator)} - {""}
        if any(separator in label for label in counts) and len(parts) < len(counts):
            return separator
    return ""
