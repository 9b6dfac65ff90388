"""Holding examples out by their content, so that a split never depends on order, files or machines."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable

from qkv.common.errors import UsageError

PARTS = ("train", "valid", "test")
SHARE = 0.01  # of the source sentences, for each of valid and test


def held_out(key: str, share: float, seed: int) -> bool:
    """Tell whether an example belongs to the held-out part.

    Args:
        key: what names the example. Examples with the same key stay together: the source sentence of a pair with
            several translations, the context of several questions.
        share: the part that is held out, 0 to 1. A larger share holds out a superset.
        seed: another seed is another split.
    """
    if not 0 <= share <= 1:
        raise UsageError(f"a share is a number from 0 to 1, got {share}")
    return _draw(key, seed) < share * 2**64


def stratified(examples: Iterable[tuple[str, str]], share: float, seed: int) -> set[int]:
    """Return the numbers of the examples to hold out: the same share of each class, at least one of it and never all.

    Args:
        examples: key and class of each. Examples with the same key stay together, in the class of the first.
        share: the part that is held out, 0 to 1; 0 holds out nothing.
        seed: another seed is another split.
    """
    places: dict[int, list[int]] = {}
    classes: dict[str, list[int]] = {}
    for place, (key, label) in enumerate(examples):
        draw = _draw(key, seed)
        if draw not in places:
            classes.setdefault(label, []).append(draw)
        places.setdefault(draw, []).append(place)
    chosen: set[int] = set()
    for draws in classes.values():
        count = min(max(round(share * len(draws)), 1 if share else 0), len(draws) - 1)
        chosen.update(place for draw in sorted(draws)[:count] for place in places[draw])
    return chosen


def _draw(key: str, seed: int) -> int:
    """Turn a key into a number below 2 ** 64, the same everywhere."""
    return int.from_bytes(
        hashlib.blake2b(f"{seed}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def cut_part(path: str) -> tuple[str, str | None]:
    """Cut `pairs.tsv#valid` into the path and the part of it that is meant; other paths mean all of the file."""
    head, _, part = path.rpartition("#")
    return (head, part) if head and part in PARTS else (path, None)


def part_of(source: str) -> str:
    """Return the part that a source sentence belongs to, by its words alone."""
    key = sentence_key(source)
    if held_out(key, SHARE, 0):
        return "test"
    return "valid" if held_out(key, 2 * SHARE, 0) else "train"  # a larger share holds out a superset


def sentence_key(source: str) -> str:
    """Return what sentences have in common that differ in case, spaces, accents' coding and final marks alone."""
    folded = " ".join(unicodedata.normalize("NFKC", source).casefold().split())
    end = len(folded)
    while end and not folded[end - 1].isalnum():
        end -= 1
    return folded[:end] or folded


def keeper(part: str) -> Callable[[str], bool]:
    """Return what tells whether a pair with this source is kept; of valid and test only the first of each source is."""
    seen: set[str] = set()

    def keep(source: str) -> bool:
        if part_of(source) != part:
            return False
        if part == "train":
            return True
        key = sentence_key(source)
        known = key in seen
        seen.add(key)
        return not known

    return keep
