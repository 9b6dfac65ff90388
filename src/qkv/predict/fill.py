"""Fill-mask: the most likely words for each mask. Only the masked rows go through the head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.data.tables import shorten
from qkv.predict.finite import finite
from qkv.predict.runner import Runner
from qkv.predict.texts import readable
from qkv.predict.verbs import reader
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.windows import Window, best_places, window_rows

SPELLINGS = ("[MASK]", "<mask>")  # accepted whatever the tokenizer's own mask is


@dataclass(frozen=True)
class Choice:
    """A word, or a piece of one, and its probability."""

    word: str
    score: float

    def to_dict(self) -> dict[str, Any]:
        """Return the choice for JSON."""
        return {"word": self.word, "score": self.score}


def fill(model: Runner, texts: Sequence[str], *, top: int = 5) -> list[list[list[Choice]]]:
    """Fill the masks of each text; see `Model.fill`."""
    tokenizer = reader(model, "fill", texts)
    mask = tokenizer.specials.get("mask")
    if mask is None:
        raise UsageError("this model's tokenizer has no mask token: there is nothing to fill")
    if top < 1:
        raise UsageError(f"top must be at least 1, got {top}")
    own = tokenizer.token_of(mask) or ""
    found = [window for (window,) in tokenizer.encode_spans([spelled(t, own, tokenizer) for t in readable(texts)])]
    for text, window in zip(texts, found, strict=True):
        if mask not in window.ids:
            raise UsageError(f"no mask in {shorten(text)!r}: write {own} where you want a word")
    cuts = [window_rows([side >= 0 for side in window.sides], model.max_length) for window in found]
    asked = [_asked(window, rows, mask) for window, rows in zip(found, cuts, strict=True)]
    parts = [
        [window.ids[row] for row in rows[number]]
        for window, rows, places in zip(found, cuts, asked, strict=True)
        for number in dict.fromkeys(number for number, _ in places)
    ]
    said = iter(_choices(model, tokenizer, parts, mask, top))
    return [_gathered(places, said) for places in asked]


def spelled(text: str, own: str, tokenizer: TextTokenizer) -> str:
    """Write other spellings of the mask as the tokenizer's own."""
    for other in SPELLINGS:
        if tokenizer.id_of(other) is None:
            text = text.replace(other, own)
    return text


def _asked(window: Window, cuts: Sequence[Sequence[int]], mask: int) -> list[tuple[int, int]]:
    """Return for each mask the window that predicts it, and its rank among the masks of that window."""
    best = best_places(cuts)
    masks = [row for row, token in enumerate(window.ids) if token == mask]
    ranks = [{row: rank for rank, row in enumerate(r for r in rows if window.ids[r] == mask)} for rows in cuts]
    return [(best[row][0], ranks[best[row][0]][row]) for row in masks]


def _gathered(places: Sequence[tuple[int, int]], said: Any) -> list[list[Choice]]:
    windows = {number: next(said) for number in dict.fromkeys(number for number, _ in places)}
    return [windows[number][rank] for number, rank in places]


def _choices(
    model: Runner, tokenizer: TextTokenizer, ids: list[list[int]], mask: int, top: int
) -> list[list[list[Choice]]]:
    """Return the most likely words for every mask of every sequence."""

    def states(batch: Any) -> Hidden:
        rows = (batch.ids == mask).nonzero().squeeze(-1)
        counts = torch.bincount(batch.layout.sequence_of[rows], minlength=batch.layout.num_sequences)
        return Hidden(model.module.states_at(batch, rows), Ragged.of(counts.tolist(), batch.ids.device))

    def finish(hidden: Hidden) -> list[list[list[Choice]]]:
        chances = model.module.logits(hidden, "mlm").float().softmax(-1)[:, : tokenizer.vocab_size]
        best = chances.topk(min(top, chances.shape[-1]))
        rows = [
            [Choice(_word(tokenizer, token), score) for token, score in zip(*row, strict=True)]
            for row in zip(best.indices.tolist(), finite(best.values).tolist(), strict=True)
        ]
        rest = iter(rows)
        return [list(islice(rest, count)) for count in hidden.layout.host_lengths]

    return model.run(ids, states, finish)


def _word(tokenizer: TextTokenizer, token: int) -> str:
    """Return a token as text; a special token as the vocabulary spells it."""
    return tokenizer.decode([token]).strip() or tokenizer.token_of(token) or ""
