"""Where words begin in a sequence of tokens, for whole-word masking and tagging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

SPACE = "\u2581"  # how SentencePiece marks the beginning of a word (Kudo and Richardson 2018)
BYTE_SPACE = "\u0120"  # how byte-level BPE writes a space (Radford et al. 2019)
_BYTE_BREAKS = "\u010a\u0109\u010d"  # and a newline, a tab, a carriage return


@dataclass(frozen=True)
class EncodedWords:
    """Tokenised lists of words.

    Attributes:
        ids: the token ids of each list.
        segments: the segment of each token.
        words: the index of the word that each token belongs to, -1 for special tokens. The index of a word without
            tokens (an empty one, or one of control characters) does not occur.
    """

    ids: list[list[int]]
    segments: list[list[int]]
    words: list[list[int]]


@dataclass(frozen=True)
class Style:
    """How a tokenizer marks word boundaries.

    Attributes:
        mark: the character that replaces the space before a word, at the beginning of a token.
        prefix: the prefix of a token that continues a word.
        suffix: the suffix of a token that ends a word.
        spaces: whether spaces are kept in tokens, with no mark added before a text.
        letters: whether every token is one character.
    """

    mark: str = ""
    prefix: str = ""
    suffix: str = ""
    spaces: bool = False
    letters: bool = False


def style_of(inner: Tokenizer) -> Style:
    """Detect the style from a tokenizer's components."""
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
    """Return, for each id, whether its token begins a word and whether the next token always begins one."""
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
    """Return a component as JSON, the only way the library exposes its settings."""
    return "" if part is None else str(part.__getstate__(), "utf-8")
