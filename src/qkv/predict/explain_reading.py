"""A text as an explanation reads it: its tokens, its words, and the word of each token."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.common.errors import Shortened
from qkv.predict.runner import Runner
from qkv.predict.texts import readable
from qkv.predict.token_words import token_words
from qkv.predict.verbs import reader
from qkv.tokenizers.windows import Window, cut

Texts = Sequence[str]
Side = tuple[int, int, int]  # of a word: its text, 0 or 1, and its characters in it


@dataclass(frozen=True)
class Read:
    """An input as the model reads it.

    Attributes:
        number: which of the texts.
        texts: the text, or both texts of a pair.
        ids: its tokens.
        segments: the segment of each token.
        words: the words that have tokens, with their side.
        word_of: the word of each token, -1 for special tokens.
    """

    number: int
    texts: tuple[str, ...]
    ids: list[int]
    segments: list[int]
    words: list[Side]
    word_of: list[int]


def read_texts(model: Runner, verb: str, texts: Texts, pairs: Texts | None = None) -> list[Read]:
    """Encode texts, cut to what the model takes as everywhere else, and find the words of their tokens."""
    tokenizer = reader(model, verb, texts) if verb != "next" else model.tokenizer
    assert tokenizer is not None
    sides = [readable(texts), *([] if pairs is None else [readable(pairs)])]
    windows = [window for (window,) in tokenizer.encode_spans(*sides)]
    limit = model.max_length
    if limit is not None and (long := sum(len(window.ids) > limit for window in windows)):
        warnings.warn(Shortened(long, len(texts), f"texts were cut to {limit} tokens"), stacklevel=2)
    both = zip(*sides, strict=True)
    return [read_window(i, pair, _fitting(w, limit)) for i, (pair, w) in enumerate(zip(both, windows, strict=True))]


def read_window(number: int, texts: tuple[str, ...], window: Window, shift: int = 0) -> Read:
    """Find the words of the tokens of a window; `shift` moves their places in the first text."""
    words: list[Side] = []
    word_of = [-1] * len(window.ids)
    for side, text in enumerate(texts):
        rows = [row for row, of in enumerate(window.sides) if of == side]
        places, found = token_words(text[shift:] if not side else text, [window.spans[row] for row in rows])
        for row, word in zip(rows, found, strict=True):
            word_of[row] = word if word < 0 else len(words) + word
        moved = 0 if side else shift
        words += [(side, start + moved, end + moved) for start, end in places]
    return Read(number, texts, window.ids, window.segments, words, word_of)


def _fitting(window: Window, limit: int | None) -> Window:
    return Window(*cut((window.ids, window.segments, window.spans, window.sides), window.sides, limit))
