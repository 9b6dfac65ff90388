"""Questions with contexts: a long context is split into overlapping windows, each preceded by the question."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.windows import SHARED, Window


def question_windows(
    tokenizer: TextTokenizer, questions: Sequence[str], contexts: Sequence[str], limit: int
) -> tuple[list[list[Window]], list[int]]:
    """Split each context into windows of at most `limit` tokens. A question takes at most half of a window.

    Returns:
        The windows of each question, and the indices of the questions that were truncated.
    """
    special = len(tokenizer.encode([""], [""]).ids[0])
    most = max(1, (limit - special) // 2)
    short = [_shortened(tokenizer, question, most) for question in questions]
    shared = max(0, min(SHARED, limit // 4, limit - special - most - 1))
    found = tokenizer.encode_spans(short, contexts, max_length=limit, stride=shared)
    return found, [number for number, (a, b) in enumerate(zip(short, questions, strict=True)) if a != b]


def _shortened(tokenizer: TextTokenizer, question: str, most: int) -> str:
    """Truncate a question to `most` tokens. It is encoded again after each cut, since the last token may change."""
    while True:
        ((window,),) = tokenizer.encode_spans([question])
        ends = [end for (_, end), side in zip(window.spans, window.sides, strict=True) if side == 0]
        if len(ends) <= most:
            return question
        question = question[: min(ends[most - 1], len(question) - 1)]
