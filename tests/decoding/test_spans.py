from __future__ import annotations

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.decoding.spans import best_span


@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 10_000))
def test_the_best_of_all_spans(length: int, longest: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(length, 2, generator=draw)
    allowed = torch.rand(length, generator=draw) < 0.7
    spans = [
        (float(scores[i, 0] + scores[j, 1]), i, j)
        for i, j in itertools.product(range(length), repeat=2)
        if i <= j < i + longest and allowed[i] and allowed[j]
    ]
    found = best_span(scores, allowed, longest=longest)
    if not spans:
        assert found is None
    else:
        assert found is not None
        assert (found.first, found.last) == max(spans)[1:]
