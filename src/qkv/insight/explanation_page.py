"""Explanations as one HTML file. It loads nothing and runs no script; its content security policy forbids both."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from qkv.common.terminal import one_line
from qkv.insight.explanation import ClassWord, Explanation, Explanations, WordEffect

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
MOST = 200  # explanations on a page
TOP = 15  # words of a class
# Blue speaks for the answer, orange against it: colours that most colour-blind readers can tell apart.
STYLE = """
.qkv-explain{font:16px/1.6 system-ui,sans-serif;--for:37,99,235;--against:217,98,12;--line:rgba(128,128,128,.3)}
.qkv-explain h2{font-size:1.15rem;margin:0 0 .2rem;overflow-wrap:anywhere}
.qkv-explain article{border-top:1px solid var(--line);padding:1.2rem 0}
.qkv-explain p{margin:.3rem 0}
.qkv-explain .faint{opacity:.75;font-size:.9rem}
.qkv-explain .text{overflow-wrap:anywhere;line-height:2}
.qkv-explain .how{display:inline-block;min-width:5.5rem;opacity:.75;font-size:.85rem}
.qkv-explain .w{border-radius:.25rem;padding:.1rem .12rem}
.qkv-explain .up{background:rgba(var(--for),var(--a));box-shadow:inset 0 -2px rgba(var(--for),var(--a))}
.qkv-explain .down{background:rgba(var(--against),var(--a));box-shadow:inset 0 -2px rgba(var(--against),var(--a))}
.qkv-explain .here{outline:1px dashed;outline-offset:1px}
.qkv-explain table{border-collapse:collapse;font-size:.9rem;margin:.5rem 0}
.qkv-explain th,.qkv-explain td{text-align:right;padding:.15rem .7rem;border-bottom:1px solid var(--line);
font-variant-numeric:tabular-nums}
.qkv-explain th:first-child{text-align:left;font-weight:normal;overflow-wrap:anywhere}
.qkv-explain thead th{font-weight:600}
.qkv-explain summary{cursor:pointer;font-size:.9rem}
.qkv-explain .classes{display:flex;flex-wrap:wrap;gap:1rem 3rem;margin-bottom:1rem}
"""
PAGE = """
:root{color-scheme:light dark}
body{margin:0;background:#fff;color:#1a1a1a;font-family:system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1.2rem 4rem}
@media (prefers-color-scheme:dark){body{background:#14171c;color:#e8e8e8}
.qkv-explain{--for:96,145,255;--against:240,130,50}}
"""


def page(found: Explanations) -> str:
    """Return a whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>qkv explain</title><style>{PAGE}</style></head><body><main><h1>Explanations</h1>"
        f"{fragment(found)}</main></body></html>\n"
    )


def fragment(found: Explanations) -> str:
    """Return what a notebook shows: the explanations with their style, and nothing around them."""
    shown = "".join(map(_article, found.found[:MOST]))
    rest = len(found) - MOST
    more = f'<p class="faint">{rest:,} more explanations are not shown.</p>' if rest > 0 else ""
    lead = (
        '<p class="faint">Blue words speak for the answer, orange words against it: by integrated gradients, and by '
        "how much the score falls if the word is left out. Hold the pointer over a word to see its numbers.</p>"
    )
    body = shown or "<p>There is no answer to explain.</p>"
    return f'<div class="qkv-explain"><style>{STYLE}</style>{lead}{_classes(found)}{body}{more}</div>'


def _article(one: Explanation) -> str:
    chance = "" if one.probability is None else f" ({one.probability:.3f})"
    title = f"{_escaped(one.verb)}: <bdi>{_escaped(one.answer)}</bdi>{chance}"
    return f"<article><h2>{title}</h2>{_texts(one)}{_checks(one)}{_numbers(one)}</article>"


def _texts(one: Explanation) -> str:
    """Show each text twice, coloured by each of the two measurements."""
    rows = []
    for name, effects in (
        ("gradients", [word.gradient for word in one.words]),
        ("left out", [word.left_out for word in one.words]),
    ):
        most = max(map(abs, effects), default=0.0) or 1.0
        rows += [
            f'<p class="text"><span class="how">{name}</span>{_coloured(one, side, effects, most)}</p>'
            for side in range(len(one.texts))
        ]
    return "".join(rows)


def _coloured(one: Explanation, side: int, effects: Sequence[float], most: float) -> str:
    """Colour the words of a text; what lies between them stays as it is."""
    text, parts, done = one.texts[side], [], 0
    for word, effect in zip(one.words, effects, strict=True):
        if word.side == side:
            parts += [_escaped(text[done : word.start]), _word(one, word, effect / most)]
            done = word.end
    return f'<bdi dir="auto">{"".join(parts)}{_escaped(text[done:])}</bdi>'


def _word(one: Explanation, word: WordEffect, share: float) -> str:
    here = one.place is not None and word.side == len(one.texts) - 1
    inside = here and one.place is not None and one.place[0] < word.end and word.start < one.place[1]
    style = f"w {'up' if share > 0 else 'down'}{' here' if inside else ''}"
    told = _escaped(f"{word.text}: gradients {word.gradient:+.3f}, left out {word.left_out:+.3f}")
    return f'<span class="{style}" style="--a:{0.6 * abs(share):.3f}" title="{told}">{_escaped(word.text)}</span>'


def _checks(one: Explanation) -> str:
    agreed = "" if one.agreement is None else f" Rank correlation of the two: {one.agreement:.2f}."
    told = (
        f"{one.scale} {one.score:+.3f}; {one.baseline:+.3f} without words. The gradients add up to "
        f"{sum(word.gradient for word in one.words):+.3f} of {one.score - one.baseline:+.3f} ({one.steps} points)."
    )
    return f'<p class="faint">{_escaped(told + agreed)}</p>'


def _numbers(one: Explanation) -> str:
    ranked = sorted(one.words, key=lambda word: -abs(word.gradient))
    rows = [(word.text, f"{word.gradient:+.3f}", f"{word.left_out:+.3f}") for word in ranked]
    return f"<details><summary>Numbers</summary>{_table(('word', 'gradients', 'left out'), rows)}</details>"


def _classes(found: Explanations) -> str:
    """Show the words that matter most for each class, if there are several texts."""
    if not found.has_classes:
        return ""
    blocks = "".join(
        f"<div><h2>words for {_escaped(answer)}</h2>{_class(words)}</div>" for answer, words in found.by_answer.items()
    )
    return f'<div class="classes">{blocks}</div>'


def _class(words: Sequence[ClassWord]) -> str:
    rows = [(w.word, str(w.count), f"{w.gradient:+.3f}", f"{w.left_out:+.3f}") for w in words[:TOP]]
    return _table(("word", "count", "gradients", "left out"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row"><bdi>{_escaped(first)}</bdi></th>{"".join(f"<td>{_escaped(c)}</td>" for c in cells)}</tr>'
        for first, *cells in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _escaped(text: str) -> str:
    """Escape markup, and show control characters as escapes; a line break stays one."""
    return "<br>".join(escape(one_line(line)) for line in text.split("\n"))
