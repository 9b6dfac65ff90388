"""One set of rules for numbers and for tensors: the searches on the host and on the device share it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.decoding.config import DecodingConfig
from qkv.decoding.rules import BeamRules, StopCondition

ALPHA = st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0])
SUM = st.floats(-50, 0) | st.just(-math.inf)


def rules(alpha: float = 1.0, beam: int = 3) -> BeamRules:
    return BeamRules(DecodingConfig(beam=beam, length_penalty=alpha), StopCondition(7))


@given(ALPHA, SUM, SUM, st.integers(1, 9), st.integers(1, 9))
def test_a_tensor_is_judged_as_its_numbers(alpha: float, best: float, worst: float, length: int, limit: int) -> None:
    mine, row = rules(alpha), torch.tensor([best, -1.5], dtype=torch.float64)
    assert mine.score(row, torch.tensor(length))[0].item() == pytest.approx(mine.score(best, length))
    found = mine.over(row, torch.tensor(worst, dtype=torch.float64), torch.tensor(length), torch.tensor(limit))
    assert bool(found[0]) == mine.over(best, worst, length, limit)
    ranks, tokens = torch.arange(5), torch.tensor([7, 2, 7, 7, 1])
    device = mine.finishes(ranks, tokens, torch.tensor(length), torch.tensor(limit)).tolist()
    assert device == [mine.finishes(r, t, length, limit) for r, t in zip(range(5), tokens.tolist(), strict=True)]


def test_a_hypothesis_stops_at_the_end_token_or_the_limit() -> None:
    stop = StopCondition(7)
    assert [stop(7, 1, 5), stop(3, 5, 5), stop(3, 4, 5)] == [True, True, False]
    assert not StopCondition(-1)(7, 1, 5)


def test_only_the_best_rows_finish() -> None:
    assert [rules(beam=2).finishes(rank, 7, 1, 5) for rank in range(4)] == [True, True, False, False]
    assert rules(beam=2).num_candidates == 4


@given(ALPHA, st.floats(-50, -0.01), st.integers(1, 8), st.data())
def test_what_is_over_cannot_be_overtaken(alpha: float, best: float, length: int, data: st.DataObject) -> None:
    """Whatever a row says from here on, its score stays at or below the worst finished one's."""
    limit = data.draw(st.integers(length + 1, 12))
    worst = data.draw(st.floats(-50, 0))
    if rules(alpha).over(best, worst, length, limit):
        for more in range(1, limit - length + 1):
            later = best - data.draw(st.floats(0, 3)) * more
            assert rules(alpha).score(later, length + more) <= worst + 1e-9
