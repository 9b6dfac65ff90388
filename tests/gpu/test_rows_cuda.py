"""Fewer rows in the last layer, on CUDA: the fused kernel gives what all rows give, beside empty sequences too."""

from __future__ import annotations

import pytest
import torch

from qkv.common.batch import Labelled, Masked, Tokens, move
from qkv.common.cuda.static_shape import StaticShape
from qkv.models import catalogue
from qkv.objectives import Classify, MaskedToken
from tests.common.kinds import masked, tokens
from tests.contracts.entries import Whole, make, shrink

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kind", ["classify", "mlm"])
def test_the_loss_and_the_gradients_are_those_of_all_rows(kind: str) -> None:
    lengths = [[9, 5, 7], [4, 4, 6, 3, 2, 2], [8]]

    def batch(n: list[int]) -> Labelled | Masked:
        return masked(n) if kind == "mlm" else Labelled(tokens(n), torch.arange(len(n)) % 2)

    shape = StaticShape.of([batch(n) for n in lengths])
    assert shape is not None
    fixed = move(shape.fill(batch(lengths[0])), "cuda")
    read: Tokens = fixed.tokens if kind == "mlm" else fixed.inputs
    assert int(read.layout.lengths.min()) == 0
    model = make(shrink(catalogue.preset("bert-base"), heads=[kind])).cuda().train()
    objective = MaskedToken() if kind == "mlm" else Classify()
    found = []
    for asked in (model, Whole(model)):
        model.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            (loss,) = objective(asked, fixed).values()
        loss.total.backward()
        found.append([loss.total.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    assert len(found[0]) == len(found[1])
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, atol=0.03 * float(other.abs().max()) + 1e-4, rtol=0.05)
