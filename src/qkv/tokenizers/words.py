"""Where words begin among tokens, for whole-word masking and for tagging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

SPACE = "\u2581"  # sentencepiece's mark of a word's beginning (Kudo and Richardson 2018)
BYTE_SPACE = "\u0120"  # how byte-level BPE writes a space (Radford et al. 2019)
_BYTE_BREAKS = "\u010a\u0109\u010d"  # and newline, tab, carriage return


@dataclass(frozen=True)
class EncodedWords:
    """Lists of words as ids.

    Attributes:
        ids: the tokens.
        segments: the segment of each token.
        words: the number of the word that each token belongs to, -1 for special tokens. A word that gives no token
            (an empty one, one of control characters) is a number that is skipped.
    """

    ids: list[list[int]]
    segments: list[list[int]]
    words: list[list[int]]


@dataclass(frozen=True)
class Style:
    """How a tokenizer's tokens show where words begin.

    Attributes:
        mark: what stands for the space before a word, at the beginning of a token.
        prefix: what stands before a token that continues a word.
        suffix: what stands after a token that ends a word.
        spaces: spaces are tokens or parts of them, and no mark is put before a text by itself.
        letters: every token is one character.
    """

    mark: str = ""
    prefix: str = ""
    suffix: str = ""
    spaces: bool = False
    letters: bool = False


def style_of(inner: Tokenizer) -> Style:
    """Read the style from a tokenizer's parts."""
    model = inner.model
    parts = "".join(_state(part) for part in (inner.normalizer, inner.pre_tokenizer, inner.decoder))
    prefix, suffix = (getattr(model, name, "") or "" for name in ("continuing_subword_prefix", "end_of_word_suffix"))
    if prefix or suffix:
        return Style(prefix=prefix, suffix=suffix)
    if "ByteLevel" in parts:
        return Style(mark=BYTE_SPACE, spaces=True)
    if "Metaspace" in parts or SPACE in parts:
        return Style(mark=SPACE)
    letters = type(model).__name__ == "WordLevel" and '"Fuse"' in parts
    return Style(spaces=letters, letters=letters)


def borders(inner: Tokenizer, style: Style, special: set[int]) -> tuple[list[bool], list[bool]]:
    """Return for each id whether its token begins a word, and whether a word begins after it in any case."""
    begins, closes = [], []
    for number in range(max(inner.get_vocab().values(), default=-1) + 1):
        begin, close = _borders(inner.id_to_token(number) or "", style)
        begins.append(begin or number in special)
        closes.append(close or number in special)
    return begins, closes


def _borders(token: str, style: Style) -> tuple[bool, bool]:
    if style.prefix or style.suffix:
        begin = bool(style.prefix) and not token.startswith(style.prefix)
        return begin, bool(style.suffix) and token.endswith(style.suffix)
    if style.letters:
        return token.isspace(), token.isspace()
    if not style.mark:
        return True, True
    breaks = _BYTE_BREAKS if style.mark == BYTE_SPACE else ""
    begin = token.startswith(style.mark) or token[:1] in breaks or token[:1].isspace()
    return begin, token[-1:] in breaks or token[-1:].isspace()


def _state(part: Any) -> str:
    """Return a part of the library as JSON; it has no other way to be asked what it is made of."""
    return "" if part is None else str(part.__getstate__(), "utf-8")
