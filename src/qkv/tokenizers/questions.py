"""Questions with their contexts, as a reader reads them: long contexts through windows, each behind the question."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.windows import SHARED, Window


def question_windows(
    tokenizer: TextTokenizer, questions: Sequence[str], contexts: Sequence[str], limit: int
) -> tuple[list[list[Window]], list[int]]:
    """Cut each context into windows of so many tokens; a question takes half of a window at most.

    Returns:
        The windows of each question, and the numbers of the questions that were cut.
    """
    special = len(tokenizer.encode([""], [""]).ids[0])
    most = max(1, (limit - special) // 2)
    short = [_shortened(tokenizer, question, most) for question in questions]
    shared = max(0, min(SHARED, limit // 4, limit - special - most - 1))
    found = tokenizer.encode_spans(short, contexts, max_length=limit, stride=shared)
    return found, [number for number, (a, b) in enumerate(zip(short, questions, strict=True)) if a != b]


def _shortened(tokenizer: TextTokenizer, question: str, most: int) -> str:
    """Cut a question after so many tokens; the last of them may be written otherwise once it is cut."""
    while True:
        ((window,),) = tokenizer.encode_spans([question])
        ends = [end for (_, end), side in zip(window.spans, window.sides, strict=True) if side == 0]
        if len(ends) <= most:
            return question
        question = question[: min(ends[most - 1], len(question) - 1)]
