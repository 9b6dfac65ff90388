"""Word vectors as a model: lookups, scores of neighbours, the contracts of the catalogue."""

from __future__ import annotations

import torch

from qkv.common.batch import Tokens
from qkv.models.word2vec import PRESETS, Word2VecConfig, build
from tests.contracts.entries import LENGTHS, outputs, sequences

CONFIG = Word2VecConfig(vocab_size=37, dim=16)


def test_first_weights_are_the_authors() -> None:
    torch.manual_seed(0)
    model = build(CONFIG)
    assert model.outputs.weight.abs().sum() == 0
    assert 0.02 < model.inputs.weight.max() <= 0.5 / 16
    assert -0.5 / 16 <= model.inputs.weight.min() < -0.02


def test_states_are_vectors_and_scores_are_products() -> None:
    model = build(CONFIG)
    torch.nn.init.normal_(model.outputs.weight)
    batch = Tokens.of(sequences(LENGTHS))
    hidden = model(batch)
    assert torch.equal(hidden.states, model.inputs.weight[batch.ids])
    torch.testing.assert_close(model.logits(hidden, "context"), hidden.states @ model.outputs.weight.T)
    alone = outputs(model, Tokens.of(sequences(LENGTHS)[2:3]))
    together = outputs(model, batch)
    for key in alone:
        torch.testing.assert_close(together[key][2], alone[key][0])


def test_every_parameter_gets_a_gradient() -> None:
    model = build(CONFIG)
    torch.nn.init.normal_(model.outputs.weight)
    found = outputs(model, Tokens.of(sequences(LENGTHS)))
    sum((tensor**2).sum() for tensors in found.values() for tensor in tensors).backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]


def test_presets_hold_two_tables() -> None:
    for config in PRESETS.values():
        with torch.device("meta"):
            model = build(config)
        assert sum(p.numel() for p in model.parameters()) == 2 * config.vocab_size * config.dim
