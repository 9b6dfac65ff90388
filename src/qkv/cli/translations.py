"""Translations as lines: of texts that come one after the other, and what each looks like."""

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
    """Translate texts as they come and write each as it is printed."""
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
    """Write a translation: the text, then what was asked for behind tabs; n-best lists as Moses writes them.

    A translation of one line is one line, whatever the model said.
    """

    def cells(one: Translation) -> list[str]:
        text = _BREAKS.sub(" ", one.text) if several or "\n" not in source else one.text
        shown = [text, *([f"{one.score:.4f}"] if scores or several else [])]
        return [*shown, one.pharaoh] if alignments else shown

    if not several:
        return "\t".join(cells(found))
    return "\n".join(" ||| ".join([str(number), *cells(one)]) for one in (found, *found.others))
