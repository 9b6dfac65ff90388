"""The kernels for few rows on the GPU, recorded, against the plain layers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.common.batch import Tokens
from qkv.common.cuda.graphs import record
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.models import catalogue
from qkv.models.fixed_steppers import FixedPrompts
from tests.contracts.entries import make, sequences, shrink

pytestmark = pytest.mark.gpu
LENGTHS = [150, 1, 40, 7, 129, 128, 2, 64]  # a program takes 128 keys at once
STEPS = 6


@pytest.fixture(params=[False, True], ids=["", "early"])
def thin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    from qkv.nn import small_batch_decode as thin

    if request.param and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("kernels begin early from Hopper on")
    monkeypatch.setattr(thin, "EARLY", request.param)
    return thin


def gpt(**changes: Any) -> Any:
    sizes = {"vocab_size": 500, "dim": 768, "num_heads": 12, "ff_dim": 3072, "num_layers": 3, "max_length": 256}
    model = make(shrink(catalogue.preset("gpt2"), **(sizes | changes)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    return model.cuda()


def forced(model: Any, rows: int, layers: Any, *, recorded: bool = True) -> Tensor:
    """The scores after each of some given tokens. Shape: [STEPS, rows, V]."""
    start = model.start(Tokens.of(sequences(LENGTHS[:rows], vocab=500), device="cuda"))
    stepper = FixedPrompts(model, rows, 1, 192, torch.device("cuda"))
    stepper.load(start.cache)
    stepper.layers = layers
    given = torch.tensor(sequences([rows] * STEPS, seed=1, vocab=500), device="cuda")
    ids, found = start.first.clone(), []

    def warm_up() -> None:
        stepper.begin()
        stepper.step(ids)

    graph, logits = record(warm_up, lambda: stepper.step(ids)) if recorded else (None, ids)
    stepper.begin()
    for tokens in given:
        ids.copy_(tokens)
        if graph is None:
            logits = stepper.step(ids)
        else:
            graph.replay()
        found.append(logits.float().clone())
    assert stepper.cache.filled.tolist() == [length - 1 + STEPS for length in LENGTHS[:rows]]
    return torch.stack(found)


@pytest.mark.parametrize("changes", [{}, {"dim": 96, "num_heads": 4, "num_kv_heads": 2, "ff_dim": 200}], ids=str)
@pytest.mark.parametrize("rows", [1, 3, 8])
@torch.inference_mode()
def test_fp32(thin: Any, rows: int, changes: dict[str, Any]) -> None:
    model = gpt(**changes)
    wanted = forced(model, rows, None, recorded=False)
    for layers in (thin.layers, None):
        torch.testing.assert_close(forced(model, rows, layers), wanted, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize(
    ("dtype", "activation"), [(torch.bfloat16, "gelu_tanh"), (torch.float16, "gelu"), (torch.bfloat16, "relu")]
)
@pytest.mark.parametrize("rows", [1, 4])
@torch.inference_mode()
def test_no_further_from_fp32_than_the_plain_layers(thin: Any, rows: int, dtype: torch.dtype, activation: str) -> None:
    half = gpt(activation=activation).to(dtype)
    wanted = forced(copy.deepcopy(half).float(), rows, None, recorded=False)
    plain, few = forced(half, rows, None), forced(half, rows, thin.layers)
    error, allowed = (few - wanted).square().mean().sqrt(), (plain - wanted).square().mean().sqrt()
    assert 0 < error < 1.3 * allowed + 1e-4
    assert allowed < 0.1 * wanted.std()  # or nothing is said
    assert torch.equal(few, forced(half, rows, thin.layers))  # the same bits in every run


@pytest.mark.parametrize("compile", [False, True])
@torch.inference_mode()
def test_searches_take_it(thin: Any, compile: bool) -> None:
    model, found = gpt().to(torch.bfloat16), []
    for layers in (None, thin.layers):
        model.steppers.clear()
        start = model.start(Tokens.of(sequences(LENGTHS[:2], vocab=500), device="cuda"))
        stepper = start.fixed(1, 64)
        assert stepper is not None
        assert stepper.layers is thin.layers  # by itself
        stepper.layers = layers
        config = DecodingConfig(compile=compile and layers is not None)
        found.append(generate(start, start.first, end_id=-1, max_lengths=[20, 12], config=config))
    agreed = 0
    for mine, theirs in zip(*found, strict=True):
        (a,), (b,) = mine, theirs
        same = next((i for i in range(len(a.ids)) if a.ids[i] != b.ids[i]), len(a.ids))
        # in bf16 two tokens may tie: where they part, both say one that is as likely
        assert a.scores[: same + 1] == pytest.approx(b.scores[: same + 1], abs=0.1)
        agreed += same
    assert agreed > 8


@torch.inference_mode()
def test_more_rows_go_the_plain_way() -> None:
    model = gpt(num_layers=1).to(torch.bfloat16)
    start = model.start(Tokens.of(sequences([3] * 9, vocab=500), device="cuda"))
    stepper = start.fixed(1, 64)
    assert stepper is not None
    assert stepper.layers is None
