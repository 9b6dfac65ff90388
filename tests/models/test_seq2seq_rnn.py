"""What the recurrent family promises beside the contracts that all families keep."""

from __future__ import annotations

import torch

from qkv.common.batch import Pairs, Tokens
from qkv.models import catalogue


def test_recurrence_runs_in_fp32_where_autocast_would_lower_it() -> None:
    model = catalogue.build(catalogue.preset("rnn-small", vocab_size=20, dim=8))
    seen = []
    for part in (model.encoder, model.decoder):
        part.register_forward_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    tokens = Tokens.of([[3, 4, 5], [6, 7]])
    with torch.autocast("cpu", torch.bfloat16):
        states = model(Pairs(tokens, tokens)).states
    assert seen == [False, False]
    assert states.dtype == torch.float32
