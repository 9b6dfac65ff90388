"""SentencePairs against loops over pairs of sentences."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from qkv.common.batch import SentencePairs, Tokens
from qkv.common.errors import UsageError
from qkv.objectives import CosineScore, Match
from qkv.objectives.contrastive import cosines
from tests.objectives.shared import bert, close, only, ragged

FIRST, SECOND = ragged(seed=3), ragged([2, 9, 4, 1], seed=4)


def naive(model) -> list[list[torch.Tensor]]:
    a, b = ([model(Tokens.of([ids])).states.mean(0) for ids in side] for side in (FIRST, SECOND))
    return [[F.cosine_similarity(x, y, dim=0) for y in b] for x in a]


def test_matching_against_the_loop() -> None:
    model = bert()
    table = naive(model)
    total, right = 0.0, 0.0
    for i in range(4):
        row = torch.stack([7.0 * table[i][j] for j in range(4)])
        column = torch.stack([7.0 * table[j][i] for j in range(4)])
        total += (row.logsumexp(0) - row[i] + column.logsumexp(0) - column[i]) / 2
        right += (int(row.argmax() == i) + int(column.argmax() == i)) / 2
    found = only(Match(scale=7.0)(model, SentencePairs(Tokens.of(FIRST), Tokens.of(SECOND))))
    close(found.total, total)
    assert found.count == 4
    assert found.sums["correct"] == right


def test_a_text_is_its_own_best_match() -> None:
    found = only(Match(scale=100.0)(bert(), SentencePairs(Tokens.of(FIRST), Tokens.of(FIRST))))
    assert found.sums["correct"] == 4


def test_cosines_against_the_loop() -> None:
    model, scores = bert(), torch.tensor([1.0, 0.2, -100.0, -0.5])
    table = naive(model)
    expected = sum((table[i][i] - scores[i]) ** 2 for i in (0, 1, 3))
    found = only(CosineScore()(model, SentencePairs(Tokens.of(FIRST), Tokens.of(SECOND), scores)))
    close(found.total, expected)
    assert found.count == 3


def test_cosines_stay_fp32_under_autocast() -> None:
    a, b = F.normalize(torch.randn(3, 8), dim=-1), F.normalize(torch.randn(3, 8), dim=-1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = cosines(a, b)
    assert found.dtype == torch.float32
    close(found, a @ b.T)


def test_scores_must_be_there() -> None:
    with pytest.raises(UsageError, match="the batch has none"):
        CosineScore()(bert(), SentencePairs(Tokens.of(FIRST), Tokens.of(SECOND)))
