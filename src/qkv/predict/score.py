"""How likely a model finds a continuation of a prompt.

A prompt and its continuation are read as one text. A token that begins in the prompt and ends in the continuation
belongs to the continuation, so that no part of the continuation is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from qkv.common.errors import UsageError
from qkv.models.skeleton import EncoderDecoder
from qkv.predict.finite import finite
from qkv.predict.likelihood import log_probs
from qkv.predict.prompts import dressed
from qkv.predict.runner import Runner
from qkv.predict.texts import check_texts, readable
from qkv.predict.verbs import reader
from qkv.tokenizers.text import TextTokenizer


@dataclass(frozen=True)
class Likelihood:
    """How likely a continuation is.

    Attributes:
        log_prob: the sum of the log-probabilities of its tokens, in nats.
        tokens: its tokens; for an encoder-decoder, with the end token.
        token_scores: the log-probability of each token, given the prompt and the tokens before it.
    """

    log_prob: float
    tokens: list[str]
    token_scores: list[float]

    @property
    def per_token(self) -> float:
        """The mean log-probability of a token."""
        return self.log_prob / len(self.tokens)

    def to_dict(self) -> dict[str, Any]:
        """Return the likelihood for JSON."""
        found = {"log_prob": self.log_prob, "per_token": self.per_token}
        return found | {"tokens": self.tokens, "token_scores": self.token_scores}


def score(
    model: Runner, prompts: Sequence[str], continuations: Sequence[str], *, prefix: str | None = None
) -> list[Likelihood]:
    """Score each continuation; see `Model.score`."""
    tokenizer = reader(model, "score", prompts)
    check_texts("score", prompts)
    check_texts("score", continuations)
    if len(prompts) != len(continuations):
        raise UsageError(f"{len(prompts)} prompts and {len(continuations)} continuations: give one for each prompt")
    for number, text in enumerate(continuations):
        if not text:
            raise UsageError(f"continuation {number} is empty: there is nothing to score")
    texts, after = dressed(model, prompts, prefix), readable(continuations)
    if isinstance(model.module, EncoderDecoder):
        sources, targets = (tokenizer.encode(part).ids for part in (texts, after))
        for number, pair in enumerate(zip(sources, targets, strict=True)):
            _check(number, max(map(len, pair)), model.max_length)
        found = log_probs(model, sources, [[model.config.start_id, *ids] for ids in targets])
        return [_likelihood(tokenizer, *both) for both in zip(targets, map(_numbers, found), strict=True)]
    rows = [_joined(model, tokenizer, *row) for row in enumerate(zip(texts, after, strict=True))]
    found = log_probs(model, [ids for ids, _ in rows])
    return [
        _likelihood(tokenizer, ids[start:], _numbers(row)[start - 1 :])
        for (ids, start), row in zip(rows, found, strict=True)
    ]


def _joined(model: Runner, tokenizer: TextTokenizer, number: int, pair: tuple[str, str]) -> tuple[list[int], int]:
    """Return the tokens of a prompt with its continuation, and which of them is the first of the continuation."""
    prompt, continuation = pair
    ((window,),) = tokenizer.encode_spans([prompt + continuation])
    inside = [row for row, side in enumerate(window.sides) if side >= 0]
    ids = window.ids[: inside[-1] + 1] if inside else []  # without an end token that the tokenizer adds
    start = next((row for row in inside if window.spans[row][1] > len(prompt)), len(ids))
    if start == len(ids):
        raise UsageError(f"continuation {number} has no tokens of its own: there is nothing to score")
    if start == 0:  # nothing comes before it
        begin = tokenizer.specials.get("start", tokenizer.specials.get("end"))
        if begin is None:
            raise UsageError(f"prompt {number} is empty, and this model has no token that begins a text")
        ids, start = [begin, *ids], 1
    _check(number, len(ids), model.max_length)
    return ids, start


def _check(number: int, size: int, limit: int | None) -> None:
    if limit is not None and size > limit:
        raise UsageError(f"prompt {number} and its continuation have {size:,} tokens, and this model reads {limit:,}")


def _numbers(found: Tensor) -> list[float]:
    return finite(found).tolist()


def _likelihood(tokenizer: TextTokenizer, ids: Sequence[int], scores: list[float]) -> Likelihood:
    return Likelihood(sum(scores), [tokenizer.token_of(token) or "" for token in ids], scores)
