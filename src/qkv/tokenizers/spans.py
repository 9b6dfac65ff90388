r"""Where tokens stand in the original text, made exact.

The library's offsets follow normalisation, but for three things that are put right here. A character composed of
several (e and U+0301 under NFC) is given the place of the first alone. The space before a word counts as part of
the word. A mark that was put before the text has the place of the first character.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from tokenizers import Encoding, Tokenizer

from qkv.tokenizers.words import SPACE, Style

Span = tuple[int, int]


class Places:
    """Finds the places of a tokenizer's tokens."""

    def __init__(self, inner: Tokenizer, style: Style) -> None:
        self._inner = inner
        self._mark = style.mark
        self._added = set(inner.get_added_tokens_decoder())

    def spans(self, encoding: Encoding, texts: Sequence[str]) -> list[Span]:
        """Return the span of each token in the text of its side; (0, 0) for special tokens."""
        ids, offsets, sides = encoding.ids, encoding.offsets, encoding.sequence_ids
        spans: list[Span] = [(0, 0)] * len(ids)
        reached = [0] * len(texts)
        for row, side in enumerate(sides):
            if side is not None:
                more = row + 1 < len(ids) and sides[row + 1] == side
                limit = offsets[row + 1][0] if more else len(texts[side])
                start, end = self._span(texts[side], ids[row], offsets[row], limit)
                reached[side] = max(end, reached[side])  # one character may stand for several tokens, spaces among them
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
        if not word:  # a mark alone has the place of its space, or none if it was put before the text
            return (start, start) if start == limit else (start, end)
        for _ in range(len(written) - len(word)):
            if start < end and (text[start].isspace() or text[start] == SPACE):
                start += 1
        return start, end


def _stripped(text: str, start: int, end: int) -> Span:
    """Leave out the spaces that an added token took with it."""
    whole = text[start:end]
    inside = whole.strip() or whole
    start += whole.index(inside)
    return start, start + len(inside)


@lru_cache(4096)
def _joins(character: str) -> bool:
    """Whether normalisation may put a character into the one before: a mark, or a vowel or final of Hangul."""
    first = unicodedata.normalize("NFKD", character)[0]
    return unicodedata.category(first).startswith("M") or "\u1160" <= first <= "\u11ff"
