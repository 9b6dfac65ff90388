from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.decoding.spans import best_spans


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 30), st.integers(0, 10_000))
def test_the_best_of_all_spans_in_their_order(length: int, longest: int, count: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(length, 2, generator=draw)
    allowed = torch.rand(length, generator=draw) < 0.7
    spans = sorted(
        (
            (float(scores[i, 0] + scores[j, 1]), i, j)
            for i, j in itertools.product(range(length), repeat=2)
            if i <= j < i + longest and allowed[i] and allowed[j]
        ),
        reverse=True,
    )[:count]
    found = best_spans(scores, allowed, count, longest)
    assert [place for _, *place in found] == [place for _, *place in spans]
    assert [score for score, *_ in found] == pytest.approx([score for score, *_ in spans])
