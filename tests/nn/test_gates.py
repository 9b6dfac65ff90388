import threading

import pytest
import torch

from qkv.insight.sites import sites
from qkv.models import catalogue
from qkv.nn.gates import gated
from tests.contracts.entries import batch_for, make, shrink

NAMES = ["bert-base", "gpt2", "t5-small", "transformer-base", "albert-base", "vit-b16"]


def model_of(name, **changes):
    config = shrink(catalogue.preset(name), **changes)
    return config, make(config).eval()


def gates_of(model, value, rows=1):
    return {(site.attention, site.layer): torch.full((rows, site.heads), value) for site in sites(model)}


@pytest.mark.parametrize("name", NAMES)
def test_open_gates_change_no_bit(name):
    config, model = model_of(name)
    batch = batch_for(config)
    plain = model(batch).states
    with gated(gates_of(model, 1.0)):
        assert torch.equal(model(batch).states, plain)
    assert torch.equal(model(batch).states, plain)


@pytest.mark.parametrize("name", NAMES)
def test_a_closed_gate_is_a_head_without_output_columns(name):
    config, model = model_of(name)
    batch = batch_for(config)
    site = sites(model)[-1]
    gates = {(site.attention, layer): torch.ones(1, site.heads) for layer in range(9)}
    for gate in gates.values():
        gate[0, 1] = 0.0
    with gated(gates):
        found = model(batch).states
    width = site.attention.head_dim
    with torch.no_grad():
        site.attention.out.weight[:, width : 2 * width] = 0.0
    torch.testing.assert_close(found, model(batch).states, atol=1e-5, rtol=1e-4)


def test_each_sequence_can_have_its_own_gates():
    config, model = model_of("bert-base")
    batch = batch_for(config)
    count = batch.layout.num_sequences
    gates = gates_of(model, 1.0, count)
    for gate in gates.values():
        gate[1] = 0.0
    plain = batch.layout.split(model(batch).states)
    with gated(gates):
        found = batch.layout.split(model(batch).states)
    assert torch.equal(found[0], plain[0])
    assert not torch.allclose(found[1], plain[1])


def test_layers_that_share_an_attention_have_their_own_gates():
    config, model = model_of("albert-base")
    batch = batch_for(config)
    found = []
    for layer in range(2):
        with gated({(sites(model)[layer].attention, layer): torch.zeros(1, config.num_heads)}):
            found.append(model(batch).states)
    assert not torch.allclose(found[0], found[1])


def test_another_thread_has_no_gates():
    config, model = model_of("gpt2")
    batch = batch_for(config)
    plain, found = model(batch).states, []
    with gated(gates_of(model, 0.0)):
        thread = threading.Thread(target=lambda: found.append(model(batch).states))
        thread.start()
        thread.join()
        assert not torch.allclose(model(batch).states, plain)
    assert torch.equal(found[0], plain)
