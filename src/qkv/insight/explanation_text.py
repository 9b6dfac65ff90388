"""Explanations in the terminal: the text with coloured words, and the words that matter most as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from qkv.common.terminal import one_line
from qkv.insight.explanation import ClassWord, Explanation

FOR, AGAINST = ((222, 235, 247), (8, 48, 107)), ((254, 230, 206), (140, 45, 4))  # pale and deep: blue, orange
FAINT = 0.05  # of the largest effect: smaller ones have no colour


def explanation_text(one: Explanation, top: int = 10, colour: bool = True) -> Group:
    """Draw one explanation.

    Args:
        one: the explanation.
        top: the number of words in the table.
        colour: draw the text in colours; without, there is only the table.
    """
    chance = "" if one.probability is None else f" ({one.probability:.4f})"
    parts = [Text(f"{one.verb}: {one_line(one.answer)}{chance}", style="bold" if colour else "")]
    if colour:
        for name, effects in (
            ("gradients  ", [word.gradient for word in one.words]),
            ("left out   ", [word.left_out for word in one.words]),
        ):
            parts += [Text.assemble(name, _coloured(one, side, effects)) for side in range(len(one.texts))]
    ranked = sorted(one.words, key=lambda word: -abs(word.gradient))[:top]
    rows = [(word.text, f"{word.gradient:+.3f}", f"{word.left_out:+.3f}") for word in ranked]
    return Group(
        *parts, _table(("word", "gradients", "left out"), rows), Text(checks(one), style="dim" if colour else "")
    )


def class_text(words: dict[str, list[ClassWord]], top: int = 10, colour: bool = True) -> Group:
    """Draw the words that matter most for each class."""
    blocks = []
    for answer, some in words.items():
        rows = [(w.word, str(w.count), f"{w.gradient:+.3f}", f"{w.left_out:+.3f}") for w in some[:top]]
        blocks += [
            Text(f"words for {one_line(answer)}", style="bold" if colour else ""),
            _table(("word", "count", "gradients", "left out"), rows),
            Text(),
        ]
    return Group(*blocks[:-1])


def checks(one: Explanation) -> str:
    """Return the line that says how far the numbers can be trusted."""
    agreed = "" if one.agreement is None else f"; rank correlation of both {one.agreement:.2f}"
    return (
        f"{one.scale} {one.score:+.3f}, {one.baseline:+.3f} without words; gradients add up to "
        f"{sum(word.gradient for word in one.words):+.3f} of {one.score - one.baseline:+.3f}{agreed}"
    )


def _coloured(one: Explanation, side: int, effects: Sequence[float]) -> Text:
    most = max(map(abs, effects), default=0.0) or 1.0
    text, drawn, done = one.texts[side], Text(), 0
    for word, effect in zip(one.words, effects, strict=True):
        if word.side == side:
            drawn.append(one_line(text[done : word.start]))
            drawn.append(one_line(word.text), style=_shade(effect / most))
            done = word.end
    return drawn.append(one_line(text[done:]))


def _shade(share: float) -> str:
    if abs(share) < FAINT:
        return ""
    pale, deep = FOR if share > 0 else AGAINST
    depth = abs(share)
    red, green, blue = (round(a + (b - a) * depth) for a, b in zip(pale, deep, strict=True))
    return f"{'white' if depth > 0.5 else 'black'} on rgb({red},{green},{blue})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Text:
    """Align columns: words to the left, numbers to the right."""
    cells = [list(head), *([one_line(first), *rest] for first, *rest in rows)]
    widths = [max(cell_len(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for first, *rest in cells:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        lines.append(f"  {first}{' ' * (widths[0] - cell_len(first))}  {numbers}")
    drawn = Text("\n".join(lines))
    drawn.no_wrap, drawn.overflow = True, "ignore"
    return drawn
