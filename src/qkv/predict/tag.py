"""Tagging: the tag of each word, and the entities that the tags form, with their positions in the text.

text ─► words (with positions) ─► tokens ─► windows ─► the tag of each word's first token ─► entities

As in training, the first token of a word decides its tag. A text that is longer than the model can read is split into
windows that overlap; each word is tagged in the window that gives it the most context on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from statistics import fmean
from typing import Any

import torch

from qkv.common.errors import UsageError
from qkv.data.iob import PREFIXED, iob2, spans_of
from qkv.predict.finite import finite
from qkv.predict.places import Place, first_tokens, firsts_of, joined_places, split_words
from qkv.predict.runner import Runner
from qkv.predict.texts import check_texts, readable
from qkv.predict.verbs import names_of, reader
from qkv.tokenizers.windows import best_places, window_rows


@dataclass(frozen=True)
class Entity:
    """A labelled piece of a text: the characters from `start` up to, but not including, `end`."""

    label: str
    text: str
    start: int
    end: int
    score: float

    def to_dict(self) -> dict[str, Any]:
        """Return the entity for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Read:
    """A text as the model reads it.

    Attributes:
        ids: its tokens.
        inside: whether each token belongs to the text, and is not special.
        firsts: the first token of each word, or None for a word without tokens.
    """

    ids: list[int]
    inside: list[bool]
    firsts: list[int | None]


def tag(
    model: Runner, texts: Sequence[str] | Sequence[Sequence[str]], *, words: bool | None = None
) -> list[list[Entity]]:
    """Tag each text; see `Model.tag`."""
    reader(model, "tag", texts)
    split = [not isinstance(text, str) for text in texts]
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            check_texts(f"tag (number {number} of its list)", text)
    if any(split) and not all(split):
        raise UsageError("tag takes texts or lists of words, not a mix of both")
    if any(split):
        whole = [" ".join(text) for text in texts]
        places = [joined_places(text) for text in texts]
        found = tag_words(model, texts)
    else:
        whole = list(map(str, texts))
        found, places = _tag_texts(model, whole)
    by_word = (any(split) or not has_entities(names_of(model))) if words is None else words
    gather = _words if by_word else _entities
    return [gather(*row) for row in zip(whole, places, found, strict=True)]


def tag_words(model: Runner, texts: Sequence[Sequence[str]]) -> list[list[tuple[str, float]]]:
    """Return the tag of each word and its probability; a word without tokens is outside, with probability 0."""
    tokenizer = reader(model, "tag", texts)
    found = tokenizer.encode_words([readable(text) for text in texts])
    read = [
        Read(ids, [word >= 0 for word in words], firsts_of(words, len(text)))
        for text, ids, words in zip(texts, found.ids, found.words, strict=True)
    ]
    return _tags(model, read)


def has_entities(labels: Sequence[str]) -> bool:
    """Whether labels mark parts of entities (B-, I-), and not single words as parts of speech do."""
    plain = {label for label in labels if not PREFIXED.fullmatch(label)}
    return len(plain) < len(labels) and (not plain or "O" in plain)


def _tag_texts(model: Runner, texts: list[str]) -> tuple[list[list[tuple[str, float]]], list[list[Place]]]:
    """Return the tags and positions of the words of each text; words without tokens are left out."""
    tokenizer = reader(model, "tag", texts)
    read, places = [], []
    for text, (window,) in zip(texts, tokenizer.encode_spans(readable(texts)), strict=True):
        words = split_words(text)
        firsts = first_tokens(text, words, window)
        there = [number for number, first in enumerate(firsts) if first is not None]
        read.append(Read(window.ids, [side >= 0 for side in window.sides], [firsts[number] for number in there]))
        places.append([words[number] for number in there])
    return _tags(model, read), places


def _tags(model: Runner, read: Sequence[Read]) -> list[list[tuple[str, float]]]:
    """Run all windows of all texts, and take the tag of each word's first token."""
    names = names_of(model)
    outside = ("O" if "O" in names else names[0], 0.0)
    windows = [window_rows(text.inside, model.max_length) if any(text.inside) else [] for text in read]
    flat = [[text.ids[row] for row in rows] for text, some in zip(read, windows, strict=True) for rows in some]
    said = iter(_likeliest(model, names, flat))
    found = []
    for text, some in zip(read, windows, strict=True):
        by_window = list(islice(said, len(some)))
        seen = {row: by_window[window][place] for row, (window, place) in best_places(some).items()}
        found.append([outside if first is None else seen[first] for first in text.firsts])
    return found


def _likeliest(model: Runner, names: Sequence[str], ids: list[list[int]]) -> list[list[tuple[str, float]]]:
    """Return the most likely label of each token and its probability."""
    if not ids:
        return []
    best = torch.cat(model.logits(ids, head="tag")).float().softmax(-1).max(-1)
    pairs = zip((names[label] for label in best.indices.tolist()), finite(best.values).tolist(), strict=True)
    return [list(islice(pairs, len(sequence))) for sequence in ids]


def _words(text: str, places: Sequence[Place], tags: Sequence[tuple[str, float]]) -> list[Entity]:
    return [
        Entity(label, text[start:end], start, end, score)
        for (start, end), (label, score) in zip(places, tags, strict=True)
    ]


def _entities(text: str, places: Sequence[Place], tags: Sequence[tuple[str, float]]) -> list[Entity]:
    """Join the words of each entity; its score is the mean of theirs."""
    found = []
    for label, first, last in spans_of([iob2(label) for label, _ in tags]):
        start, end = places[first][0], places[last][1]
        score = fmean(score for _, score in tags[first : last + 1])
        found.append(Entity(label, text[start:end], start, end, score))
    return found
