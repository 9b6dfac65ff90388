"""Perplexity of running text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from qkv.common.errors import UsageError
from qkv.evaluation.language import Perplexity
from qkv.evaluation.score import Score
from qkv.tasks.base import Task
from qkv.tasks.exam import Exam


def score_text(task: Task, exam: Exam) -> list[Score]:
    """Long documents are read in windows that follow one another: every token but the first is predicted once."""
    metric, model = Perplexity(), exam.model
    if model.tokenizer is None:
        raise UsageError("perplexity is measured on text, and this model has no tokenizer")
    for chunk in exam.chunks(task.examples(exam.paths, exam.skipped), 16):
        texts = [document.text for document in chunk]
        for text, ids in zip(texts, model.tokenizer.encode(texts).ids, strict=True):
            starts = range(0, len(ids) - 1, model.config.max_length)
            nll = sum(_surprise(model, ids[i : i + model.config.max_length + 1]) for i in starts)
            if len(ids) > 1:
                metric.add(nll, len(ids) - 1, len(text.split()), len(text.encode()))
    return [metric.result(unit=unit) for unit in ("token", "word", "byte")]


def _surprise(model: Any, ids: Sequence[int]) -> float:
    """-log p of all tokens but the first, each after those before it."""
    log_p = model.logits([ids[:-1]])[0].float().log_softmax(-1)
    return -float(log_p.gather(-1, torch.tensor(ids[1:], device=log_p.device).unsqueeze(-1)).sum())
