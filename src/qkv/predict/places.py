"""The positions of the words of a text, and the first token of each word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate

from qkv.tokenizers.windows import Window

Place = tuple[int, int]  # the first character of something in a text, and the one after its last
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WORD = re.compile(r"(?:a\.){2,}(?![a.c])|a(?:[a.c]*a)?|[i.cp]")  # over the kinds of the characters
_CLITIC = re.compile(r"(?<=.)(?:n['\u2019]t|['\u2019](?:s|d|m|re|ve|ll))$", re.IGNORECASE | re.DOTALL)
_JOINTS = "-'\u2019&@_/:,"


def split_words(text: str) -> list[Place]:
    """Return the positions of the words: everything that is not white space belongs to a word.

    As in treebanks, punctuation is a word of its own unless it is inside a word (Anglo-Dutch, 1,234.5, U.S.); clitics
    such as 's are split off, and each ideograph is a word.
    """
    kinds = "".join(map(_kind, text))
    return [part for found in _WORD.finditer(kinds) for part in _parted(text, *found.span())]


def _kind(character: str) -> str:
    """Tell a blank, a full stop, a joint of words, other punctuation (p), an ideograph (i), and the rest (a)."""
    if character.isspace():
        return " "
    if character == ".":
        return "."
    if character in _JOINTS:
        return "c"
    if _IDEOGRAPH.match(character):
        return "i"
    return "p" if unicodedata.category(character)[0] in "PS" else "a"


def _parted(text: str, start: int, end: int) -> list[Place]:
    found = _CLITIC.search(text[start:end])
    return [(start, start + found.start()), (start + found.start(), end)] if found else [(start, end)]


def joined_places(words: Sequence[str]) -> list[Place]:
    """Return the positions of words in the text you get by joining them with single spaces."""
    starts = accumulate((len(word) + 1 for word in words), initial=0)
    return [(start, start + len(word)) for start, word in zip(starts, words, strict=False)]


def firsts_of(words: Sequence[int], count: int) -> list[int | None]:
    """Return the first token of each word, from the word of each token."""
    found: dict[int, int] = {}
    for row, word in enumerate(words):
        found.setdefault(word, row)
    return [found.get(word) for word in range(count)]


def first_tokens(text: str, words: Sequence[Place], window: Window) -> list[int | None]:
    """Return the first token that starts in each word, or else the one that reaches into it."""
    begun: dict[int, int] = {}
    reached: dict[int, int] = {}
    word = 0
    for row, ((start, end), side) in enumerate(zip(window.spans, window.sides, strict=True)):
        if side < 0 or not text[start:end].strip():
            continue
        start += len(text[start:end]) - len(text[start:end].lstrip())
        while word < len(words) and words[word][1] <= start:
            word += 1
        begun.setdefault(word, row)
        for other in range(word + 1, len(words)):
            if words[other][0] >= end:
                break
            reached.setdefault(other, row)
    return [begun.get(number, reached.get(number)) for number in range(len(words))]
