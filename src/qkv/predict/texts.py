"""Texts that a tokenizer can take: well formed, and no longer than memory allows.

A tokenizer needs some two hundred bytes for each character, so the length is bounded before it starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from qkv.common.errors import UsageError, show
from qkv.common.unicode import well_formed

T = TypeVar("T")
LONGEST = 4_000_000  # characters of a text that is read whole; War and Peace has 3.2 million
HELD = 1 << 18  # characters that are tokenised at a time


def chunked(items: Iterable[T], count: int) -> Iterator[list[T]]:
    """Give texts, or tuples and dicts that hold them, in lists: at most `count`, and few where they are long."""
    part: list[T] = []
    size = 0
    for item in items:
        part.append(item)
        size += _characters(item)
        if len(part) >= count or size >= HELD:
            yield part
            part, size = [], 0
    if part:
        yield part


def _characters(item: Any) -> int:
    if isinstance(item, str):
        return len(item)
    parts = item.values() if isinstance(item, Mapping) else item
    return sum(len(part) for part in parts if isinstance(part, str))


def check_list(who: str, texts: object) -> None:
    """Raise an error if `texts` is not a list, or something like one."""
    if isinstance(texts, str):
        raise UsageError(f"{who} takes a list of texts; put a single one in a list")
    if not isinstance(texts, Collection) or isinstance(texts, bytes | Mapping):
        raise UsageError(f"{who} takes a list of texts, got {show(texts)}")


def check_texts(who: str, texts: Sequence[str]) -> Sequence[str]:
    """Return a list of texts; anything else is an error that names the first that is not a text."""
    check_list(who, texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"{who} takes a list of texts, and number {number} of it is {show(text)}")
    return texts


def readable(texts: Sequence[str]) -> list[str]:
    """Return texts that are read whole, in windows or sentence by sentence; one that is too long is an error."""
    for number, text in enumerate(check_texts("the model", texts)):
        if len(text) > LONGEST:
            raise UsageError(
                f"text {number} has {len(text):,} characters, and a text may have {LONGEST:,}: cut it into parts"
            )
    return [well_formed(text) for text in texts]
