"""Prompts as a model reads them: with the folder's prefix and suffix, as tokens, and no longer than its context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qkv.common.errors import UsageError
from qkv.predict.runner import Runner
from qkv.predict.texts import readable
from qkv.tokenizers.text import TextTokenizer


@dataclass(frozen=True)
class Limits:
    """How much text a model can read and write.

    Attributes:
        context: the most tokens of a prompt with its continuation, or of a source; None for no limit.
        asked: the most new tokens that the user wants, or None.
        window: whether to read only the end of what is longer than the context.
    """

    context: int | None
    asked: int | None = None
    window: bool = False


def dressed(model: Runner, prompts: Sequence[str], prefix: str | None) -> list[str]:
    """Put the prefix and the suffix of the folder, or another prefix, around each prompt."""
    before, after = model.contents.prefix if prefix is None else prefix, model.contents.suffix
    return [f"{before}{prompt}{'' if prompt.endswith(after) else after}" for prompt in readable(prompts)]


def prompt_ids(tokenizer: TextTokenizer, prompts: Sequence[str], limits: Limits) -> list[list[int]]:
    """Return the tokens of each prompt, without an end token; one that is too long is an error.

    An empty prompt is the token that begins a text or, as in GPT-2, ends the one before.
    """
    end, start = (tokenizer.specials.get(role) for role in ("end", "start"))
    closes = tokenizer.encode([""]).ids[0][-1:] == [end]  # whether the tokenizer adds the end token itself
    found = tokenizer.encode(prompts).ids
    ids = [row[:-1] if closes else row for row in found]
    begin = end if start is None else start
    for number, row in enumerate(ids):
        if not row:
            if begin is None:
                raise UsageError(f"prompt {number} is empty, and this model has no token that begins a text")
            row.append(begin)
        _check(f"prompt {number}", len(row), limits)
    return ids


def source_ids(tokenizer: TextTokenizer, sources: Sequence[str], limits: Limits) -> list[list[int]]:
    """Return the tokens of the sources of an encoder-decoder; one that is too long is an error."""
    if limits.window:
        raise UsageError("a window is for models that continue a text; an encoder-decoder reads the whole prompt")
    ids = tokenizer.encode(sources).ids
    for number, row in enumerate(ids):
        if limits.context is not None and len(row) > limits.context:
            raise UsageError(
                f"prompt {number} has {len(row):,} tokens, and this model reads {limits.context:,}: shorten it"
            )
    return ids


def _check(what: str, size: int, limits: Limits) -> None:
    """Raise an error if a prompt, or the prompt and what was asked for, is longer than the context."""
    context = limits.context
    if context is None or limits.window:
        return
    if size >= context:
        raise UsageError(
            f"{what} has {size:,} tokens, and the context of this model is {context:,}, which its continuation must "
            "fit into too: shorten the prompt, or use window (--window) to read only its end"
        )
    if limits.asked is not None and size + limits.asked > context:
        raise UsageError(
            f"{what} has {size:,} tokens and max_length is {limits.asked:,}, together more than the context of "
            f"{context:,}: ask for at most {context - size:,}, or use window (--window) to go on beyond it"
        )
