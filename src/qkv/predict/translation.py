"""Split a text into pieces that a translator can read, and join their translations again.

text ─► piece, white space, piece, … ─► translation, white space, translation, … ─► text
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qkv.common.errors import UsageError
from qkv.data.sentences import split_sentences
from qkv.predict.texts import readable
from qkv.tokenizers.text import TextTokenizer

Pair = tuple[int, int]
LONG = 64  # tokens: a longer text is translated sentence by sentence, as translators are trained
MANY = 3  # sentences: so is a text with this many; few training pairs have more than two, and models drop the rest
LONGEST = 256  # tokens of a sentence: few translators have seen longer ones
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class Piece:
    """A part of a text.

    Attributes:
        text: its characters, without white space around them.
        space: the white space that follows.
        ids: its tokens; none where there is nothing to translate.
    """

    text: str
    space: str
    ids: list[int]


def cut_texts(
    tokenizer: TextTokenizer, texts: Sequence[str], max_length: int | None, prefix: str = ""
) -> list[list[Piece]]:
    """Split texts into sentences, and split sentences that are too long for the model.

    One or two sentences of no more than `LONG` tokens stay together, since each gives context to the other.

    Args:
        tokenizer: measures the length.
        texts: any texts; a lone surrogate, which no tokenizer takes, becomes U+FFFD.
        max_length: what the model can read, including special tokens. A longer sentence is split, with a warning.
        prefix: what the model reads before each piece (T5's "translate English to German: ").
    """
    cutter = _Cutter(tokenizer, min(max_length or LONGEST, LONGEST), prefix)
    cleaned = readable(texts)
    encoded = tokenizer.encode([prefix + text.strip() for text in cleaned]).ids
    found = [cutter.cut(text, ids) for text, ids in zip(cleaned, encoded, strict=True)]
    if cutter.halved:
        sentences = "1 sentence is" if cutter.halved == 1 else f"{cutter.halved} sentences are"
        warnings.warn(f"{sentences} longer than {cutter.limit} tokens: translated in parts", stacklevel=4)
    return found


class _Cutter:
    """Splits one text after the other, and counts the sentences that had to be split."""

    def __init__(self, tokenizer: TextTokenizer, limit: int, prefix: str) -> None:
        self.tokenizer, self.limit, self.halved, self.prefix = tokenizer, limit, 0, prefix
        self.nothing = len(tokenizer.encode([""]).ids[0])  # the special tokens alone
        self.before = len(tokenizer.encode([prefix.rstrip()]).ids[0]) - self.nothing  # the tokens of the prefix
        if self.before >= limit - self.nothing:
            raise UsageError(f"the source prefix has {self.before} tokens, but the model reads {limit} in all")

    def cut(self, text: str, ids: list[int]) -> list[Piece]:
        inner = text.strip()
        sentences = split_sentences(text)
        many = sum(bool(sentence) for sentence, _ in sentences) >= MANY
        if many or len(ids) > min(LONG + self.before, self.limit) or "\n" in inner:
            return [piece for sentence, space in sentences for piece in self._parts(sentence, space)]
        start = text.index(inner)
        before = [Piece("", text[:start], [])] if start else []
        return [*before, self._piece(inner, text[start + len(inner) :], ids)]

    def _parts(self, sentence: str, space: str) -> list[Piece]:
        """Return a sentence, or its parts where it is too long."""
        parts = _halves(sentence, lambda part: len(self._ids(part)) <= self.limit)
        self.halved += len(parts) > 1
        parts[-1] = (parts[-1][0], space)
        return [self._piece(part, gap, self._ids(part, self.limit)) for part, gap in parts]

    def _ids(self, text: str, max_length: int | None = None) -> list[int]:
        return self.tokenizer.encode([self.prefix + text], max_length=max_length).ids[0]

    def _piece(self, text: str, space: str, ids: list[int]) -> Piece:
        return Piece(text, space, ids if text and len(ids) > self.nothing + self.before else [])


def _halves(text: str, fits: Callable[[str], bool]) -> list[tuple[str, str]]:
    """Split a text at the white space nearest to its middle, and its halves again, until each part fits."""
    if len(text) < 2 or fits(text):
        return [(text, "")]
    middle = len(text) // 2
    border = min(_SPACES.finditer(text), key=lambda gap: abs(gap.start() - middle), default=None)
    start, end = border.span() if border else (middle, middle)
    *first, (last, _) = _halves(text[:start], fits)
    return [*first, (last, text[start:end]), *_halves(text[end:], fits)]


@dataclass(frozen=True)
class Translation:
    """A translated text.

    Attributes:
        text: the translation.
        score: what hypotheses are ranked by, higher is better; for several sentences, the sum.
        tokens: its tokens, including the end token.
        token_scores: the log-probability of each token.
        alignment: pairs of word numbers, source and translation, that belong together; None if you did not ask for
            them. Words are separated by white space.
        others: the next best translations, best first.
    """

    text: str
    score: float = 0.0
    tokens: list[str] = field(default_factory=list)
    token_scores: list[float] = field(default_factory=list)
    alignment: list[Pair] | None = None
    others: list[Translation] = field(default_factory=list)

    def to_dict(self, *, scores: bool = False, others: bool = False) -> dict[str, Any]:
        """Return the translation for JSON.

        Args:
            scores: with its tokens and their scores.
            others: with the next best; then each has its score, too.
        """

        def row(one: Translation) -> dict[str, Any]:
            shown: dict[str, Any] = {"translation": one.text}
            if scores or others:
                shown["score"] = one.score
            if scores:
                shown |= {"tokens": one.tokens, "token_scores": one.token_scores}
            return shown if one.alignment is None else shown | {"alignment": one.alignment}

        return row(self) | ({"others": [row(one) for one in self.others]} if others else {})

    @property
    def pharaoh(self) -> str:
        """The alignment as Pharaoh wrote it: "0-0 1-2"."""
        return " ".join(f"{source}-{target}" for source, target in self.alignment or [])


def join(parts: Sequence[tuple[str, Translation, str]], *, aligned: bool) -> Translation:
    """Join the pieces of a text: source, translation, and the white space that follows both."""
    source, whole = "", Translation("", alignment=[] if aligned else None)
    for piece, said, space in parts:
        moved = (next_word(source), next_word(whole.text))
        whole = replace(
            whole,
            text=whole.text + said.text + space,
            score=whole.score + said.score,
            tokens=whole.tokens + said.tokens,
            token_scores=whole.token_scores + said.token_scores,
            alignment=_moved(whole.alignment, said.alignment, moved),
        )
        source += piece + space
    return whole


def next_word(text: str) -> int:
    """Return the number of the word that the next character belongs to."""
    return len(text.split()) - bool(text and not text[-1].isspace())


def _moved(before: list[Pair] | None, more: list[Pair] | None, by: Pair) -> list[Pair] | None:
    if before is None:
        return None
    return sorted({*before, *((source + by[0], target + by[1]) for source, target in more or [])})
