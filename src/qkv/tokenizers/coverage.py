"""How well a tokenizer covers some texts: unknown characters, and pieces per word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.tokenizers.text import TextTokenizer

TEXTS, CHARACTERS = 100, 500  # texts to inspect, and characters of each
SHOWN = 3  # unknown parts to show
MANY = 0.05  # of the characters; below this, the rest of the text tells enough


@dataclass(frozen=True)
class Coverage:
    """What a tokenizer makes of some texts.

    Attributes:
        unknown: the share of the characters, without white space, that belong to unknown tokens.
        examples: the most frequent parts that are unknown.
        words: the number of words, separated by white space.
        pieces: tokens per word.
    """

    unknown: float = 0.0
    examples: tuple[str, ...] = ()
    words: int = 0
    pieces: float = 0.0

    def unknown_to(self, name: str) -> str:
        """Return the unknown characters in words, or nothing if they are few."""
        if self.unknown < MANY:
            return ""
        such = f", such as {' '.join(self.examples)}" if self.examples else ""
        return f"{self.unknown:.0%} of the characters of these texts are unknown to {name}{such}"


def coverage(tokenizer: TextTokenizer, texts: Sequence[str]) -> Coverage:
    """Inspect a sample of texts."""
    step = max(1, len(texts) // TEXTS)
    some = [text[:CHARACTERS] for text in texts[::step][:TEXTS]]
    total = sum(len("".join(text.split())) for text in some)
    words = sum(len(text.split()) for text in some)
    if not total:
        return Coverage()
    windows = [window for (window,) in tokenizer.encode_spans(some)]
    tokens = sum(side >= 0 for window in windows for side in window.sides)
    unk = tokenizer.specials.get("unk")
    parts = [
        "".join(text[start:end].split())
        for text, window in zip(some, windows, strict=True)
        for token, (start, end) in zip(window.ids, window.spans, strict=True)
        if token == unk
    ]
    often = tuple(part for part, _ in Counter(part[:20] for part in parts if part).most_common(SHOWN))
    return Coverage(sum(map(len, parts)) / total, often, words, tokens / max(words, 1))
