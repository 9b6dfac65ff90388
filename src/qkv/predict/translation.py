"""What a translation is: its text, how sure the model was, and which words belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

Pair = tuple[int, int]


@dataclass(frozen=True)
class Translation:
    """A translated text.

    Attributes:
        text: the translation.
        score: what hypotheses are ranked by, greater is better; of several sentences, the sum.
        tokens: the tokens said, the end token among them.
        token_scores: the log-probability of each token.
        alignment: numbers of a word of the source and a word of the translation that belong together, or None where
            they were not asked for. Words are what white space divides.
        others: the next best translations, best first.
    """

    text: str
    score: float = 0.0
    tokens: list[str] = field(default_factory=list)
    token_scores: list[float] = field(default_factory=list)
    alignment: list[Pair] | None = None
    others: list[Translation] = field(default_factory=list)

    @property
    def pharaoh(self) -> str:
        """The alignment as Pharaoh wrote it: "0-0 1-2"."""
        return " ".join(f"{source}-{target}" for source, target in self.alignment or [])


def join(parts: Sequence[tuple[str, Translation, str]], *, aligned: bool) -> Translation:
    """Put a text together from its pieces: source, translation, and the white space that follows both."""
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
