r"""Exact character offsets of tokens in the original text.

The `tokenizers` library maps offsets back through normalisation, with three flaws that this file corrects. A character
composed of several (e and U+0301 under NFC) gets the offset of the first one only. The space before a word counts as
part of the word. A word mark added before the text gets the offset of the first character.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from tokenizers import Encoding, Tokenizer

from qkv.tokenizers.words import SPACE, Style

Span = tuple[int, int]


class Places:
    """Computes the character spans of a tokenizer's tokens."""

    def __init__(self, inner: Tokenizer, style: Style) -> None:
        self._inner = inner
        self._mark = style.mark
        self._added = set(inner.get_added_tokens_decoder())

    def spans(self, encoding: Encoding, texts: Sequence[str]) -> list[Span]:
        """Return the span of each token in its own text; (0, 0) for special tokens."""
        ids, offsets, sides = encoding.ids, encoding.offsets, encoding.sequence_ids
        spans: list[Span] = [(0, 0)] * len(ids)
        reached = [0] * len(texts)
        for row, side in enumerate(sides):
            if side is not None:
                more = row + 1 < len(ids) and sides[row + 1] == side
                limit = offsets[row + 1][0] if more else len(texts[side])
                start, end = self._span(texts[side], ids[row], offsets[row], limit)
                reached[side] = max(end, reached[side])  # one character may yield several tokens, spaces included
                spans[row] = start, reached[side]
        return spans

    def _span(self, text: str, token: int, offsets: Span, limit: int) -> Span:
        start, end = offsets
        while start < end < limit and _joins(text[end]):
            end += 1
        if token in self._added:
            return _stripped(text, start, end)
        written = self._inner.id_to_token(token) or ""
        word = written.lstrip(self._mark) if self._mark else written
        if not word:  # a lone mark spans its space, or nothing if it was added before the text
            return (start, start) if start == limit else (start, end)
        for _ in range(len(written) - len(word)):
            if start < end and (text[start].isspace() or text[start] == SPACE):
                start += 1
        return start, end


def _stripped(text: str, start: int, end: int) -> Span:
    """Exclude the spaces that an added token absorbed."""
    whole = text[start:end]
    inside = whole.strip() or whole
    start += whole.index(inside)
    return start, start + len(inside)


@lru_cache(4096)
def _joins(character: str) -> bool:
    """Whether normalisation may merge a character into the previous one: a mark, or a Hangul vowel or final."""
    first = unicodedata.normalize("NFKD", character)[0]
    return unicodedata.category(first).startswith("M") or "\u1160" <= first <= "\u11ff"
