"""Hold out examples by content, so that a split does not depend on order, files or machines."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable
from itertools import islice

from qkv.common.errors import UsageError

PARTS = ("train", "valid", "test")
FEW = 1000  # examples; of more than these, some fall on either side of any reasonable share
SHARE = 0.01  # fraction of the source sentences in each of valid and test


def held_out(key: str, share: float, seed: int) -> bool:
    """Return whether an example is held out.

    Args:
        key: identifies the example. Examples with the same key stay together: pairs with the same source sentence,
            questions about the same context.
        share: the fraction to hold out, 0 to 1. A larger share holds out a superset.
        seed: a different seed gives a different split.
    """
    if not 0 <= share <= 1:
        raise UsageError(f"the share must be from 0 to 1, got {share}")
    return _draw(key, seed) < share * 2**64


def splitting(keys: Iterable[str], share: float, seed: int) -> Callable[[str], bool]:
    """Return `held_out` for these keys; where they are few, at least one is held out and at least one is kept.

    Args:
        keys: one for each example; only the first `FEW` are read.
        share: the fraction to hold out, 0 to 1; 0 holds out nothing.
        seed: a different seed gives a different split.
    """
    first = [_draw(key, seed) for key in islice(keys, FEW)]
    draws, limit = sorted(set(first)), share * 2**64
    if share and draws and len(first) < FEW:
        limit = min(max(limit, draws[0] + 1), draws[-1])
    return lambda key: _draw(key, seed) < limit


def stratified(examples: Iterable[tuple[str, str]], share: float, seed: int) -> set[int]:
    """Return the indices of the examples to hold out: the same share of each class, at least one and never all.

    Args:
        examples: key and class of each. Examples with the same key stay together, in the class of the first.
        share: the fraction to hold out, 0 to 1; 0 holds out nothing.
        seed: a different seed gives a different split.
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
    """Hash a key to a number below 2 ** 64, the same on every machine."""
    return int.from_bytes(
        hashlib.blake2b(f"{seed}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def cut_part(path: str) -> tuple[str, str | None]:
    """Split `pairs.tsv#valid` into the path and the part; without a part, a path means the whole file."""
    head, _, part = path.rpartition("#")
    return (head, part) if head and part in PARTS else (path, None)


def part_of(source: str) -> str:
    """Return the part of a source sentence, which depends only on its words."""
    key = sentence_key(source)
    if held_out(key, SHARE, 0):
        return "test"
    return "valid" if held_out(key, 2 * SHARE, 0) else "train"  # a larger share holds out a superset


def sentence_key(source: str) -> str:
    """Return a key that ignores case, spaces, Unicode composition and final punctuation."""
    folded = " ".join(unicodedata.normalize("NFKC", source).casefold().split())
    end = len(folded)
    while end and not folded[end - 1].isalnum():
        end -= 1
    return folded[:end] or folded


def keeper(part: str) -> Callable[[str], bool]:
    """Return a filter for the source sentences of a part; valid and test keep the first pair of each source."""
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
