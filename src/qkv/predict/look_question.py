"""What to ask the states of a model: its masked words, its next words, its classes or its tags."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.insight.lens import Question
from qkv.predict.look_input import Input
from qkv.predict.runner import Runner
from qkv.predict.verbs import names_of
from qkv.tokenizers.text import TextTokenizer

PLACES = 32  # tokens at which answers are kept


def question(model: Runner, given: Input) -> Question | None:
    """Choose the question; None if the model has no head that gives words or classes."""
    heads, tokenizer = set(model.module.heads), model.tokenizer
    if given.written is not None:
        return _next_in_target(model, given) if "lm" in heads else None
    if tokenizer is not None and "mlm" in heads and (masks := _masks(tokenizer, given.ids)):
        places = [f"{given.tokens[row]} at {row}" for row in masks]
        return _words(model, "mlm", masks, places, [-1] * len(masks))
    if tokenizer is not None and "lm" in heads:
        rows = list(range(max(0, len(given.ids) - PLACES), len(given.ids)))
        places = [f"after {given.tokens[row].replace(' ', '·')}" for row in rows]
        return _words(model, "lm", rows, places, [*given.ids, -1][rows[0] + 1 :])
    return _classes(model, given, heads)


def _next_in_target(model: Runner, given: Input) -> Question:
    assert given.written is not None
    assert given.wanted is not None
    rows = list(range(min(PLACES, len(given.wanted))))
    return _words(model, "lm", rows, given.written[: len(rows)], given.wanted[: len(rows)])


def _masks(tokenizer: TextTokenizer, ids: Sequence[int]) -> list[int]:
    mask = tokenizer.specials.get("mask")
    return [row for row, token in enumerate(ids) if token == mask][:PLACES]


def _words(model: Runner, head: str, rows: list[int], places: list[str], wanted: list[int]) -> Question:
    tokenizer = model.tokenizer
    assert tokenizer is not None
    size = min(tokenizer.vocab_size, model.config.vocab_size)
    return Question(head, rows, places, lambda token: tokenizer.pieces([token])[0], size, wanted)


def _classes(model: Runner, given: Input, heads: set[str]) -> Question | None:
    """Ask for classes of the whole input, or for a tag of each token."""
    names = names_of(model)
    for head in ("classify", "distilled"):
        if head in heads:
            last = len(given.tokens) - 1
            pooled = [last] if model.module.pooler is not None and model.module.pooler.row == "last" else [0]
            rows = [0, 1] if head == "distilled" else pooled
            whole = ["the image" if given.picture is not None else "the whole text"]
            return Question(head, rows, whole, names.__getitem__, len(names), [-1], several=model.multi_label)
    if "tag" not in heads:
        return None
    rows = list(range(min(PLACES, len(given.tokens))))
    return Question("tag", rows, given.tokens[: len(rows)], names.__getitem__, len(names), [-1] * len(rows))
