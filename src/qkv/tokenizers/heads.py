"""Shorten texts that are much longer than the maximum length before encoding them."""

from __future__ import annotations

import re
from operator import is_
from typing import TypeVar, cast

from tokenizers import Encoding

Input = TypeVar("Input", str, "tuple[str, str]")

SHORT = 1 << 16  # characters; shorter texts are always encoded in full
PER_TOKEN = 16  # characters per token, more than the average of any vocabulary
_SPACE = re.compile(r"\s")


def head(text: Input, max_length: int) -> Input:
    """Return a prefix of a text, or of each text of a pair, long enough for `max_length` tokens."""
    if isinstance(text, str):
        size = max(SHORT, PER_TOKEN * max_length)
        space = _SPACE.search(text, size, size + 1000) if len(text) > size else None
        return text[: space.start() if space else size] if len(text) > size else text
    sides = tuple(head(side, max_length) for side in text)
    return text if all(map(is_, sides, text)) else cast("tuple[str, str]", sides)


def is_enough(whole: Input, part: Input, encoding: Encoding, max_length: int) -> bool:
    """Return whether each shortened text still has at least `max_length` tokens."""
    sides = encoding.sequence_ids
    texts = zip((whole,), (part,), strict=True) if isinstance(whole, str) else zip(whole, part, strict=True)
    return all(len(a) == len(b) or sides.count(side) >= max_length for side, (a, b) in enumerate(texts))
