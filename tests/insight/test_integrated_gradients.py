import pytest
import torch
from torch import nn

from qkv.common.batch import Tokens
from qkv.insight.embedded import states_from, token_rows
from qkv.insight.integrated_gradients import baseline_states, path_gradients, points
from qkv.models import catalogue
from qkv.models.skeleton import Transformer
from qkv.nn.embeddings import TextEmbeddings
from qkv.nn.stack import Stack
from tests.contracts.entries import batch_for, make, shrink

IDS = [[2, 5, 6, 7, 3], [2, 4, 3]]


def integrate(model, batch, base, score, steps):
    return sum(path_gradients(model, batch, base, [at] * batch.layout.num_sequences, score) for at in points(steps))


def test_points_integrate_polynomials_exactly():
    for power in range(8):
        assert sum(w * p**power for p, w in points(4)) == pytest.approx(1 / (power + 1), abs=1e-12)


def test_a_linear_model_gives_weights_times_inputs():
    torch.manual_seed(0)
    model = Transformer(embeddings=TextEmbeddings(20, 6, scale=2.0), stack=Stack([]), heads={}).eval()
    weight, batch = torch.randn(6), Tokens.of(IDS)
    base = torch.where(batch.ids == 5, 9, -1)

    def score(hidden):
        return torch.stack([(part @ weight).sum() for part in hidden.split()])

    table = model.embeddings.token.weight.detach()
    zeros = torch.zeros(len(base), 6)
    start = torch.where((base == 9).unsqueeze(-1), table[9], zeros)
    for steps in (1, 3):
        found = integrate(model, batch, base, score, steps)
        torch.testing.assert_close(found.float(), 2.0 * (table[batch.ids] - start) @ weight)


@pytest.mark.parametrize("name", ["bert-base", "gpt2", "electra-small", "rnn-small"])
def test_attributions_add_up_to_the_change_of_the_score(name):
    config = shrink(catalogue.preset(name))
    model, batch = make(config).eval(), batch_for(config)
    source = getattr(batch, "source", batch)
    base = torch.full_like(source.ids, 1)
    base[0] = source.ids[0]

    def score(hidden):
        return torch.stack([part.tanh().sum() for part in hidden.split()])

    found = sum(path_gradients(model, batch, base, [at] * source.layout.num_sequences, score) for at in points(24))
    with torch.no_grad():
        change = score(model(batch)) - score(baseline_states(model, batch, base))
    each = torch.stack([part.sum() for part in source.layout.split(found)])
    torch.testing.assert_close(each.float(), change, atol=2e-2, rtol=2e-2)
    assert found[0] == 0  # a token that is its own baseline


@pytest.mark.parametrize("name", ["bert-base", "gpt2", "t5-small", "transformer-base", "albert-base", "rnn-small"])
def test_one_point_is_the_slope_along_the_path(name):
    config = shrink(catalogue.preset(name))
    model, batch = make(config).eval().double(), batch_for(config)
    source = getattr(batch, "source", batch)
    base = torch.full_like(source.ids, 1)
    x, start = token_rows(model, source.ids).detach(), token_rows(model, base).detach()

    def score(hidden):
        return torch.stack([(part * part.detach().sign()).mean() for part in hidden.split()])

    def at(place):
        with torch.no_grad():
            return torch.stack([p.abs().mean() for p in states_from(model, batch, start + place * (x - start)).split()])

    found = path_gradients(model, batch, base, [(0.4, 2.0)] * source.layout.num_sequences, score)
    each = torch.stack([part.sum() for part in source.layout.split(found)])
    torch.testing.assert_close(each, 2 * (at(0.4 + 1e-6) - at(0.4 - 1e-6)) / 2e-6, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["bert-base", "gpt2", "t5-small", "transformer-base", "electra-small", "rnn-small"])
def test_the_models_own_rows_give_its_own_states(name):
    config = shrink(catalogue.preset(name))
    model, batch = make(config).eval(), batch_for(config)
    with torch.no_grad():
        rows = token_rows(model, getattr(batch, "source", batch).ids)
        assert torch.equal(states_from(model, batch, rows).states, model(batch).states)


def test_no_gradient_is_left_behind():
    config = shrink(catalogue.preset("bert-base"))
    model, batch = make(config).eval(), batch_for(config)
    count = batch.layout.num_sequences
    path_gradients(
        model, batch, torch.ones_like(batch.ids), [(0.5, 1.0)] * count, lambda h: h.layout.mean(h.states)[:, 0]
    )
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(isinstance(parameter, nn.Parameter) for parameter in model.parameters())
