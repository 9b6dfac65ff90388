"""The CPU engine gives the numbers of the layers it replaces, for every family that it runs and on every variant."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.compression.engine import accelerate, encoders, engine_of, fits
from qkv.insight.capture import capture
from qkv.models import catalogue
from qkv.native import library
from qkv.native.build import VARIANTS, file_of
from qkv.nn.linear import replace_products
from tests.contracts.entries import MODELS, batch_for, make, sequences

RUN = {name: config for name, config in MODELS.items() if any(map(fits, encoders(make(config))))}
RUN["rotary"] = catalogue.override(MODELS["bert-tiny"], {"position": {"name": "rotary"}})
RUN["odd"] = catalogue.override(MODELS["bert-tiny"], {"dim": 44, "num_heads": 2, "ff_dim": 50, "max_length": 300})
RUN["narrow"] = catalogue.override(MODELS["bert-tiny"], {"num_heads": 3, "head_dim": 20})
ABLE = [
    name for name, (_, flags) in VARIANTS.items() if set(flags.split()) <= library._flags() and file_of(name).is_file()
]
pytestmark = pytest.mark.skipif(not ABLE, reason="the CPU engine is not compiled here: it needs g++ and 64-bit Linux")


def pair(monkeypatch, config, variant=None, *, int8=False):
    """Return the same model twice: with the engine, and without."""
    if variant:
        monkeypatch.setenv("QKV_NATIVE", variant)
    with_engine, plain = make(config), make(config)
    accelerate(with_engine, int8=int8)
    assert engine_of(with_engine) == f"{library.variant()} {'int8' if int8 else 'float32'}"
    return with_engine, plain


def states(model, batch):
    with torch.no_grad():
        return model.encoder_states(batch.source if hasattr(batch, "source") else batch).states


def test_it_runs_the_encoders_and_nothing_else() -> None:
    assert {"bert-tiny", "albert-base", "vit", "electra-small", "transformer-pre", "rotary", "bert-pruned"} <= set(RUN)
    assert not {"gpt2", "t5-small", "rnn-base", "gpt-grouped"} & set(RUN)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_be_offered_to_it(name) -> None:
    """One whose layers the engine lacks stays as it is: `load` and `build` offer it every model."""
    model = make(MODELS[name])
    accelerate(model)
    assert engine_of(model) != "torch" or not any(stack.engine for stack in encoders(model))


@pytest.mark.parametrize("variant", ABLE)
@pytest.mark.parametrize("name", RUN)
def test_the_states_are_those_of_the_layers(monkeypatch, name, variant) -> None:
    fast, plain = pair(monkeypatch, RUN[name], variant)
    batch = batch_for(RUN[name])
    torch.testing.assert_close(states(fast, batch), states(plain, batch), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["bert-tiny", "vit", "electra-small", "transformer-pre"])
def test_heads_and_narrowed_rows_agree(monkeypatch, name) -> None:
    fast, plain = pair(monkeypatch, RUN[name])
    batch = batch_for(RUN[name])
    batch = getattr(batch, "source", batch)
    for head in [head for head in plain.heads if head != "lm"]:
        with torch.no_grad():
            found, expected = (model.logits(model.states_for(batch, head), head) for model in (fast, plain))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("variant", ABLE)
def test_neighbours_and_threads_change_no_bit(monkeypatch, variant, int8) -> None:
    if int8 and not library.has_int8(variant):
        pytest.skip("this variant has no int8")
    fast, _ = pair(monkeypatch, RUN["odd"], variant, int8=int8)
    ids = sequences([3, 290, 1, 17, 120, 60, 5, 33])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        together = states(fast, Tokens.of(ids)).split([len(row) for row in ids])
        torch.set_num_threads(3)
        again = states(fast, Tokens.of(ids)).split([len(row) for row in ids])
        for row, one, other in zip(ids, together, again, strict=True):
            assert torch.equal(one, other)
            assert torch.equal(states(fast, Tokens.of([row])), one)
    finally:
        torch.set_num_threads(before)


def quantised(x, levels=127):
    scale = x.abs().amax(-1, keepdim=True) / levels
    return torch.where(scale > 0, (x / scale).round() * scale, x)


@pytest.mark.parametrize("variant", ABLE)
@pytest.mark.parametrize("name", ["bert-tiny", "odd", "narrow", "rotary", "transformer-pre"])
def test_int8_is_a_product_of_rounded_numbers(monkeypatch, name, variant) -> None:
    """The oracle: the layers in float, with each product's weights and inputs rounded to 8 bits by row."""
    if not library.has_int8(variant):
        pytest.skip("this variant has no int8")
    fast, plain = pair(monkeypatch, RUN[name], variant, int8=True)
    for module in encoders(plain)[0].modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.data = quantised(module.weight.data)
            module.register_forward_pre_hook(lambda _, args: (quantised(args[0]), *args[1:]))
    monkeypatch.setattr(type(encoders(plain)[0]), "_narrows", lambda *_: False)
    batch = batch_for(RUN[name])
    found, expected = states(fast, batch), states(plain, batch)
    # A number that is rounded the other way moves a product by a hundredth; most agree to float precision.
    assert ((found - expected).abs() < 1e-3).float().mean() > 0.9
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.1)


def test_capture_gradients_and_training_use_the_layers(monkeypatch) -> None:
    fast, _ = pair(monkeypatch, RUN["bert-tiny"])
    batch, calls = batch_for(RUN["bert-tiny"]), []
    encoder = library.Encoder.run
    monkeypatch.setattr(library.Encoder, "run", lambda *args: calls.append(1) or encoder(*args))
    fast(batch).states.sum().backward()
    with torch.no_grad(), capture(fast) as found:
        fast(batch)
    assert found.weights()
    assert not calls
    fast.train()
    states(fast, batch)
    assert not calls
    fast.eval()
    states(fast, batch)
    assert calls == [1]


def test_changed_weights_are_packed_again(monkeypatch) -> None:
    fast, plain = pair(monkeypatch, RUN["bert-tiny"])
    batch = batch_for(RUN["bert-tiny"])
    states(fast, batch)
    for model in (fast, plain):
        with torch.no_grad():
            model.stack.blocks[1].feedforward.part.up.weight.mul_(1.5)
    torch.testing.assert_close(states(fast, batch), states(plain, batch), rtol=2e-5, atol=2e-5)


def test_weights_that_a_fused_optimizer_changed_are_packed_again(monkeypatch) -> None:
    fast, plain = pair(monkeypatch, RUN["bert-tiny"])
    batch = batch_for(RUN["bert-tiny"])
    states(fast, batch)
    for model in (fast, plain):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
        model(batch).states.square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(states(fast, batch), states(plain, batch), rtol=2e-5, atol=2e-5)


def test_replaced_parts_weights_and_hooks_are_seen(monkeypatch) -> None:
    config, seen = RUN["bert-tiny"], []
    batch = batch_for(config)
    fast, plain = pair(monkeypatch, config)
    states(fast, batch)
    for model in (fast, plain):  # other weights in the same place
        up = model.stack.blocks[0].feedforward.part.up
        up.weight = torch.nn.Parameter(up.weight.detach() * 2)
    torch.testing.assert_close(states(fast, batch), states(plain, batch), rtol=2e-5, atol=2e-5)
    hook = fast.stack.blocks[1].feedforward.part.register_forward_hook(lambda *_: seen.append("hook"))
    states(fast, batch)
    hook.remove()
    assert seen == ["hook"]
    states(fast, batch)
    assert seen == ["hook"]
    replace_products(fast, lambda name, product: Noted(name, product, seen))
    torch.testing.assert_close(states(fast, batch), states(plain, batch), rtol=2e-5, atol=2e-5)
    assert len(seen) == 1 + 4 * config.num_layers


class Noted(torch.nn.Module):
    """A product that notes each call."""

    def __init__(self, name, product, seen) -> None:
        super().__init__()
        self.name, self.product, self.seen = name, product, seen

    def forward(self, *given):
        self.seen.append(self.name)
        return self.product(*given)


def test_calls_at_the_same_time_do_not_meet(monkeypatch) -> None:
    fast, plain = pair(monkeypatch, RUN["odd"])
    batches = [Tokens.of(sequences([3 + i, 40, 200], seed=i)) for i in range(8)]
    expected = [states(plain, batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for found, want in zip(pool.map(lambda batch: states(fast, batch), batches), expected, strict=True):
                torch.testing.assert_close(found, want, rtol=2e-5, atol=2e-5)


def test_the_environment_switches_it_off_and_names_are_checked(monkeypatch) -> None:
    monkeypatch.setenv("QKV_NATIVE", "0")
    model = make(RUN["bert-tiny"])
    accelerate(model)
    assert engine_of(model) == "torch"
    monkeypatch.setenv("QKV_NATIVE", "avx9")
    with pytest.raises(UsageError, match=r"avx9.*allowed: 0, avx512"):
        library.variant()
