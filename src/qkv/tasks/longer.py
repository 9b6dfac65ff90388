"""Scores on inputs that are longer than in training: once, twice, four times as long.

language model   the same tokens of the same texts, read in windows of 1, 2, 4 times data.max_length
translator       1, 2, 4 examples joined into one

A language model that makes use of more context gets a lower perplexity in longer windows; one whose positions do not
reach beyond training gets a higher one (Press et al. 2022, figure 1).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F

from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.data.examples import Parallel
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.evaluation.language import Perplexity
from qkv.evaluation.score import Score
from qkv.evaluation.translation import Bleu
from qkv.models.position import position_limit
from qkv.tasks.base import Task
from qkv.tasks.exam import Exam, chunks

BATCH = 4096  # tokens


def perplexities(task: Task, exam: Exam, times: Sequence[int]) -> list[Score | None]:
    """Return the perplexity in windows of each multiple of data.max_length; None where the positions end before."""
    window, limit = task.data.max_length, position_limit(exam.model.config)
    texts = list(_texts(task, exam, window * max(times)))
    if not texts:
        longest = window * max(times)
        raise UsageError(
            f"no text has {longest} tokens, {max(times)} times data.max_length: set data.unit to blank or file, or "
            "lower data.max_length or the lengths"
        )
    found: list[Score | None] = []
    for factor in times:
        size, metric = factor * window, Perplexity()
        if limit is not None and size > limit:
            found.append(None)
            continue
        pieces = [ids[start : start + size] for ids in texts for start in range(0, len(ids), size)]
        rows = torch.cat(_surprises(exam.model, pieces)).split(list(map(len, texts)))
        for nll in rows:
            # A token that begins a window of the shortest kind has no context there: no length counts it.
            scored = torch.arange(len(nll)) % (min(times) * window) > 0
            metric.add(float(nll[scored].double().sum()), int(scored.sum()))
        score = metric.result()
        found.append(replace(score, signature=f"{score.signature}|text:{task.data.unit}|window:{size}"))
    return found


def translations(task: Task, exam: Exam, times: Sequence[int]) -> list[Score | None]:
    """Return BLEU, by greedy search, on examples joined 1, 2, 4 at a time; None where the positions end before."""
    examples, limit, tokenizer = list(exam.examples(task)), position_limit(exam.model.config), exam.model.tokenizer
    found: list[Score | None] = []
    for factor in times:
        joined = list(_joined(examples, factor))
        if not joined:
            raise UsageError(f"the test data have {len(examples)} examples, too few to join {factor}: give more")
        sources = tokenizer.encode([example.source for example in joined]).ids
        if limit is not None and max(map(len, sources)) > limit:
            found.append(None)
            continue
        metric = Bleu()
        for text, example in zip(_translated(exam.model, sources), joined, strict=True):
            metric.add(text, [example.target])
        score = metric.result()
        found.append(replace(score, signature=f"{score.signature}|beam:1|joined:{factor}"))
    return found


def _texts(task: Task, exam: Exam, multiple: int) -> Iterator[list[int]]:
    """Yield the tokens of each text, up to a multiple of the longest window, so that every length reads the same."""
    for some in chunks(exam.examples(task), 16):
        for ids in exam.model.tokenizer.encode([document.text for document in some]).ids:
            if whole := len(ids) // multiple * multiple:
                yield ids[:whole]


def _surprises(model: Any, pieces: Sequence[list[int]]) -> list[torch.Tensor]:
    """Return -log p of each token given those before it in its piece; the first of a piece has none and gets 0."""
    return [F.pad(-row, (1, 0)).cpu() for row in model.log_probs(pieces)]


def _joined(examples: Sequence[Parallel], factor: int) -> Iterator[Parallel]:
    """Join neighbours into longer examples; a rest that is too short is left out."""
    for start in range(0, len(examples) // factor * factor, factor):
        some = examples[start : start + factor]
        yield Parallel(" ".join(one.source for one in some), " ".join(one.target for one in some), some[0].where)


@torch.inference_mode()
def _translated(model: Any, sources: Sequence[list[int]]) -> Iterator[str]:
    """Translate whole sources, however long they are: `Model.translate` would cut them into sentences."""
    rest, most = iter(sources), position_limit(model.config) or sys.maxsize
    size = max(1, BATCH // max(map(len, sources)))
    while some := list(islice(rest, size)):
        found = generate(
            model.module.start(Tokens.of(some, device=model.device)),
            torch.full((len(some),), model.config.start_id, device=model.device),
            end_id=model.config.end_id,
            max_lengths=[min(2 * len(ids) + 20, most) for ids in some],
            config=DecodingConfig(beam=1),
        )
        yield from (model.tokenizer.decode(hypotheses[0].ids) for hypotheses in found)
