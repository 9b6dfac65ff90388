"""Windowed attention in blocks: the numbers of the masked square, and no work outside the window."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from qkv.common.ragged import Ragged
from qkv.nn import local_attention
from qkv.nn.kernels import Call, eager, sdpa
from qkv.nn.rectangles import rectangles


def call(lengths: list[int], window: int, *, causal: bool) -> Call:
    torch.manual_seed(0)
    layout = Ragged.of(lengths)
    rows = (torch.randn(sum(lengths), 2, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    q, k, v = rows
    return Call(q=q, k=k, v=v, queries=layout, keys=layout, scale=0.3, causal=causal, window=window)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [0, 1, 31, 32, 50])
@pytest.mark.parametrize("lengths", [[257], [200, 200], [260, 200, 259, 1]])
def test_blocks_give_the_numbers_of_the_square(lengths: list[int], window: int, causal: bool) -> None:
    asked = call(lengths, window, causal=causal)
    whole, blocks = eager(asked), sdpa(asked)
    assert torch.allclose(whole, blocks, rtol=1e-9, atol=1e-9)
    leaves = (asked.q, asked.k, asked.v)
    weight = torch.randn_like(whole)
    expected = torch.autograd.grad((whole * weight).sum(), leaves)
    found = torch.autograd.grad((blocks * weight).sum(), leaves)
    assert all(torch.allclose(a, b, rtol=1e-8, atol=1e-8) for a, b in zip(expected, found, strict=True))


def test_the_blocks_are_really_used() -> None:
    """Without them, products grow with the square of the length."""
    work = []
    for length in (512, 1024):
        asked = call([length], 32, causal=False)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            part = rectangles(asked.queries, asked.keys)[0]
            q, k, v = (part.queries(x).transpose(1, 2) for x in (asked.q, asked.k, asked.v))
            math = torch.nn.attention.SDPBackend.MATH
            with torch.nn.attention.sdpa_kernel(math):
                local_attention.attend(q, k, v, None, window=32, causal=False, scale=0.3, dropout=0.0)
        work.append(counter.get_total_flops())
    assert work[1] == pytest.approx(2 * work[0])
    assert work[0] == 2 * 2 * 2 * 512 * 96 * 8  # two products, two operations each, two heads, 3 blocks of 32 keys


def test_short_sequences_are_not_cut() -> None:
    assert not local_attention.pays(127, 16)
    assert local_attention.pays(128, 16)
    assert not local_attention.pays(128, 33)
