"""Translations as lines of text or JSON."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from qkv.cli.lines import json_line
from qkv.predict import Model, Translation

_BREAKS = re.compile(r"[\r\n]+")


def translate_lines(
    model: Model, texts: Iterable[str], options: Mapping[str, Any], *, scores: bool, alignments: bool, as_json: bool
) -> Iterator[str]:
    """Translate texts as they arrive and format each translation."""
    several = options["nbest"] > 1
    kept: deque[str] = deque()  # the texts whose translations have not come yet
    found = model.translate_stream(_kept(texts, kept), scores=True, alignments=alignments, **options)
    for number, translation in enumerate(found):
        source = kept.popleft()
        if as_json:
            yield json_line({"text": source} | translation.to_dict(scores=scores, others=several))
        else:
            yield as_line(number, source, translation, several=several, scores=scores, alignments=alignments)


def _kept(texts: Iterable[str], kept: deque[str]) -> Iterator[str]:
    for text in texts:
        kept.append(text)
        yield text


def as_line(number: int, source: str, found: Translation, *, several: bool, scores: bool, alignments: bool) -> str:
    """Format a translation: the text, then scores and alignment after tabs; n-best lists as in Moses.

    The translation of one line is always one line.
    """

    def cells(one: Translation) -> list[str]:
        text = _BREAKS.sub(" ", one.text) if several or "\n" not in source else one.text
        shown = [text, *([f"{one.score:.4f}"] if scores or several else [])]
        return [*shown, one.pharaoh] if alignments else shown

    if not several:
        return "\t".join(cells(found))
    return "\n".join(" ||| ".join([str(number), *cells(one)]) for one in (found, *found.others))
