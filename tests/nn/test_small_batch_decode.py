"""The kernels for few rows against the plain layers, by Triton's interpreter; tests/gpu runs the kernels themselves."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.common.batch import Tokens
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.decoding.recorded import recorded_search
from qkv.decoding.rules import BeamRules, StopCondition
from qkv.models import catalogue
from qkv.models.fixed_steppers import FixedPrompts
from tests.contracts.entries import make, shrink

if find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1":  # read when Triton is imported
    pytest.skip("needs Triton's interpreter: make test-kernels", allow_module_level=True)
from qkv.nn import small_batch_decode as thin

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")  # an infinite exp is what sigmoid wants
PROMPTS = [[5, 6, 7, 8, 9], [11], [4, 4, 9, 20, 21, 22, 23, 24, 30], [8, 8]]
COARSE = {"qkv": (32, 1), "out": (16, 1), "up": (64, 1), "down": (32, 1), "attend": (4, 1)}  # the interpreter is slow
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "odd sizes": {"dim": 48, "num_heads": 4, "ff_dim": 100, "activation": "gelu"},
    "grouped": {"dim": 36, "num_heads": 6, "num_kv_heads": 2, "activation": "relu"},
}


@pytest.fixture(autouse=True)
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thin, "CUTS", COARSE)


def gpt(**changes: Any) -> Any:
    return make(shrink(catalogue.preset("gpt2"), **changes))


def steppers(model: Any, prompts: list[list[int]], capacity: int = 12) -> tuple[FixedPrompts, FixedPrompts, Tensor]:
    """The plain one, one with the kernels, and the tokens both are given first."""
    start = model.start(Tokens.of(prompts))
    found = [FixedPrompts(model, len(prompts), 1, capacity, torch.device("cpu")) for _ in range(2)]
    for stepper in found:
        stepper.load(start.cache)
    assert found[0].layers is None  # nothing is different on the CPU
    found[1].layers = thin.layers
    return found[0], found[1], start.first


def held(stepper: FixedPrompts) -> Tensor:
    """Everything in the cache. Shape: [layers, 2, slots, capacity, K, H]."""
    pairs = [torch.stack(stepper.cache.layers[layer]) for layer in sorted(stepper.cache.layers)]
    return torch.stack(pairs).unflatten(2, (-1, stepper.cache.capacity))


@pytest.mark.parametrize("rows", [1, 3, 4])
@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_steps_are_the_plain_ones(name: str, rows: int) -> None:
    plain, few, ids = steppers(gpt(**CONFIGS[name]), PROMPTS[-rows:])
    for _ in range(2):
        ends = few.cache.filled.tolist()
        before = held(few)
        wanted, found = plain.step(ids), few.step(ids)
        torch.testing.assert_close(found, wanted, atol=3e-6, rtol=1e-5)
        assert few.cache.filled.tolist() == plain.cache.filled.tolist() == [end + 1 for end in ends]
        after = held(few)
        torch.testing.assert_close(after, held(plain), atol=3e-6, rtol=1e-5)
        for slot, end in enumerate(ends):  # one new token in each slot, and nothing else
            assert after[:, :, slot, end].ne(0).all()
            after[:, :, slot, end] = before[:, :, slot, end]
        assert torch.equal(after, before)
        ids = wanted.argmax(-1)


@torch.inference_mode()
def test_own_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert thin.CUTS is not COARSE
    plain, few, ids = steppers(gpt(dim=32, num_layers=1), PROMPTS[:1])
    torch.testing.assert_close(few.step(ids), plain.step(ids), atol=3e-6, rtol=1e-5)


@torch.inference_mode()
def test_prompts_of_one_token_and_no_biases() -> None:
    model = gpt(num_layers=1)
    for module in model.stack.modules():
        if isinstance(module, nn.Linear):
            module.bias = None
    plain, few, ids = steppers(model, [[3], [7]])
    assert not few.cache.layers
    for _ in range(2):
        torch.testing.assert_close(few.step(ids), plain.step(ids), atol=3e-6, rtol=1e-5)


@torch.inference_mode()
def test_norm_of_rows_far_from_nought() -> None:
    model = gpt(num_layers=1)
    model.embeddings.position.table.weight.add_(
        300.0
    )  # a variance as mean of squares less square of mean would be lost
    plain, few, ids = steppers(model, PROMPTS[:2])
    torch.testing.assert_close(few.step(ids), plain.step(ids), atol=1e-3, rtol=1e-4)


@torch.inference_mode()
def test_a_full_slot_writes_into_no_other() -> None:
    _, few, ids = steppers(gpt(num_layers=1), PROMPTS[2:], capacity=9)
    few.cache.filled[0] = 9
    before = held(few)[:, :, 1]
    few.step(ids)
    changed = held(few)[:, :, 1].ne(before).flatten(3).any(-1)  # [layers, 2, capacity]
    assert changed.sum(-1).eq(1).all()
    assert changed[..., 1].all()


@torch.inference_mode()
def test_a_row_that_is_over_stays_at_its_last_position() -> None:
    _, few, ids = steppers(gpt(num_layers=1), PROMPTS[2:], capacity=10)  # the first has 8 tokens
    alone = steppers(gpt(num_layers=1), PROMPTS[3:], capacity=10)[1]
    for _ in range(3):
        found, wanted = few.step(ids), alone.step(ids[1:])
        assert found.isfinite().all()
        torch.testing.assert_close(found[1:], wanted, atol=3e-6, rtol=1e-5)
    assert few.cache.filled.tolist() == [9, 4]


@pytest.mark.parametrize("beam", [1, 2])
@torch.inference_mode()
def test_searches_say_the_same(beam: int) -> None:
    model, config = gpt(), DecodingConfig(beam=beam, nbest=beam)
    for parameter in model.parameters():
        parameter.mul_(3.0)  # scores far enough apart
    start = model.start(Tokens.of(PROMPTS[:2]))
    first, rules = start.first, BeamRules(config, StopCondition(17))
    few = FixedPrompts(model, 2, beam, 12, torch.device("cpu"))
    few.load(start.cache)
    few.layers = thin.layers
    wanted = generate(start, first, max_lengths=[4, 3], end_id=17, config=config)
    found = recorded_search(few, first, limits=[4, 3], longest=4, rules=rules)
    for mine, theirs in zip(found, wanted, strict=True):
        assert [h.ids for h in mine] == [h.ids for h in theirs]
        assert [h.score for h in mine] == pytest.approx([h.score for h in theirs], abs=1e-4)


class Other(nn.Linear):
    """A product that is not what it seems, such as a quantised one."""


def test_who_fits() -> None:
    def fits(preset: str = "gpt2", rows: int = 4, **changes: Any) -> bool:
        return thin.fits(make(shrink(catalogue.preset(preset), **changes)).stack, rows)

    assert fits()
    assert fits(activation="relu", num_kv_heads=2)
    assert not fits(rows=5)
    assert not fits("bert-base")  # the norm comes after
    assert not fits(window=3)
    assert not fits(norm="rms")
    assert not fits(activation="swiglu")
    assert not fits(activation="silu")
    for position in ("rotary", "alibi"):
        assert not fits(**{"position.name": position})
    model = gpt()
    model.stack.blocks[1].feedforward.part.up.__class__ = Other
    assert not thin.fits(model.stack, 1)
    model = gpt()
    assert not thin.fits(model.train().stack, 1)
    model.eval().stack.blocks[0].attention.part.tap.register_forward_hook(lambda *_: None)
    assert not thin.fits(model.stack, 1)
