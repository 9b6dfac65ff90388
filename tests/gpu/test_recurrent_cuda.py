"""The recurrent network under autocast: cuDNN's own choice of precision must not reach it."""

from __future__ import annotations

import pytest
import torch

from qkv.common.batch import Pairs, Tokens, Translated
from qkv.models import catalogue
from qkv.objectives.translate import Translate

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("score", ["dot", "additive"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_losses_and_gradients_are_those_of_fp32(cell: str, score: str) -> None:
    torch.manual_seed(0)
    config = catalogue.preset("rnn-small", vocab_size=50, dim=32, dropout=0.0, cell=cell, score=score)
    model = catalogue.build(config).cuda().train()
    source, target = Tokens.of([[3, 4, 5], [6, 7]], device="cuda"), Tokens.of([[8, 9], [10, 11, 12]], device="cuda")
    found = []
    for bf16 in (False, True):
        model.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            loss = Translate()(model, Translated(Pairs(source, target), target.ids))["translate"].total
        loss.backward()
        found.append(torch.stack([loss.detach(), model.token.weight.grad.norm()]))
    torch.testing.assert_close(found[1], found[0], atol=0.02, rtol=0.02)
