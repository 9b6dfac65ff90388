"""The words of a text as an explanation counts them, and the word of each token."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from qkv.predict.places import Place, split_words


def token_words(text: str, spans: Sequence[Place]) -> tuple[list[Place], list[int]]:
    """Return the words that have tokens, and the word of each token, -1 if it shows no character.

    Words are those of `split_words`, but words that share a token are one: "[MASK]", or "don't" if a tokenizer splits
    it into "don" and "'t".

    Args:
        text: the text.
        spans: the characters of each token, in order.
    """
    words = split_words(text)
    starts = [start for start, _ in words]
    reach = [_reach(text, span, starts) for span in spans]
    first_of = list(range(len(words)))  # the first word of the group that each word belongs to
    for first, last in filter(None, reach):
        for word in range(first + 1, last + 1):
            first_of[word] = min(first_of[word], first_of[first])
    used = sorted({first_of[found[0]] for found in reach if found})
    number = {word: i for i, word in enumerate(used)}
    ends = {first_of[word]: end for word, (_, end) in enumerate(words)}
    return [(starts[word], ends[word]) for word in used], [number[first_of[f[0]]] if f else -1 for f in reach]


def _reach(text: str, span: Place, starts: Sequence[int]) -> tuple[int, int] | None:
    """Return the first and the last word that a token has visible characters of."""
    start, end = span
    seen = text[start:end]
    if not seen.strip() or not starts:
        return None
    start, end = start + len(seen) - len(seen.lstrip()), end - len(seen) + len(seen.rstrip())
    return max(bisect_right(starts, start) - 1, 0), max(bisect_right(starts, end - 1) - 1, 0)
