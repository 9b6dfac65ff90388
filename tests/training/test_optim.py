from __future__ import annotations

import pytest
import torch
from torch import nn

from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.training.averaging import MovingAverage, mean_of
from qkv.training.energy import Energy, Meter
from qkv.training.muon import orthogonal
from qkv.training.optim import OptimConfig, Optimizer
from tests.contracts.entries import batch_for, make, shrink


def test_norms_and_biases_do_not_decay() -> None:
    model = make(shrink(catalogue.preset("bert-base")))
    optimizer = Optimizer(model, OptimConfig(weight_decay=0.1))
    groups = optimizer.inner[0].param_groups
    assert {p.dim() for p in groups[1]["params"]} == {1}
    assert groups[1]["weight_decay"] == 0.0
    assert min(p.dim() for p in groups[0]["params"]) == 2
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))


def test_muon_takes_the_matrices_of_the_layers_and_adamw_the_rest() -> None:
    model = make(shrink(catalogue.preset("bert-base"), heads=["mlm"]), train=True)
    optimizer = Optimizer(model, OptimConfig(name="muon"))
    adam, muon = optimizer.inner
    taken = {optimizer.names[p] for g in muon.param_groups for p in g["params"]}
    assert all(".blocks." in name and name.endswith("weight") for name in taken)
    assert not any("norm" in name or "token" in name for name in taken)
    rest = {optimizer.names[p] for g in adam.param_groups for p in g["params"]}
    assert taken | rest == {name for name, _ in model.named_parameters()}
    before = [p.detach().clone() for p in model.parameters()]
    (model(batch_for(shrink(catalogue.preset("bert-base")))).states ** 2).sum().backward()
    optimizer.step(optimizer.norm())
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert sum(moved) > len(moved) // 2


def test_the_rate_is_a_share_of_the_peak() -> None:
    one, half = nn.Linear(3, 2), nn.Linear(3, 2)
    half.load_state_dict(one.state_dict())
    start = one.weight.detach().clone()
    for model, share in ((one, 1.0), (half, 0.5)):
        optimizer = Optimizer(model, OptimConfig(lr=0.1, weight_decay=0.0))
        model(torch.ones(1, 3)).sum().backward()
        optimizer.set_rate(share)
        optimizer.step(optimizer.norm())
        assert model.weight.grad is None
    torch.testing.assert_close(half.weight - start, (one.weight - start) / 2)


@pytest.mark.parametrize("shape", [(8, 8), (4, 12), (12, 4)])
def test_muon_makes_a_matrix_nearly_orthogonal(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    values = torch.linalg.svdvals(orthogonal(matrix))
    assert (values > 0.5).all()
    assert (values < 1.3).all()
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    assert (orthogonal(matrix) - u @ v).norm() / (u @ v).norm() < 0.35


def test_unknown_optimizer() -> None:
    with pytest.raises(UsageError, match="did you mean 'adamw'"):
        Optimizer(nn.Linear(1, 1), OptimConfig(name="adamv"))


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_clipping_inside_the_step_is_clipping_before_it(name: str) -> None:
    config = OptimConfig(name=name, lr=0.1, clip=1.0)
    inside, before = _two_blocks(), _two_blocks()
    for size in (100.0, 1e-3, 3.0):
        one, other = Optimizer(inside, config), Optimizer(before, OptimConfig(name=name, lr=0.1, clip=0.0))
        for model in (inside, before):
            (size * model(torch.linspace(-1, 1, 8).view(2, 4))).pow(2).sum().backward()
        norm = nn.utils.clip_grad_norm_(before.parameters(), 1.0)
        torch.testing.assert_close(one.norm(), norm)
        one.step(one.norm())
        other.step(other.norm())
    for a, b in zip(inside.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_a_gradient_that_is_not_finite_moves_nothing(name: str) -> None:
    model = _two_blocks()
    optimizer = Optimizer(model, OptimConfig(name=name, lr=0.1))
    for bad in (False, True):
        model(torch.ones(1, 4)).sum().backward()
        if bad:
            next(model.parameters()).grad[0, 0] = float("inf")  # type: ignore[index]
            held = [p.detach().clone() for p in model.parameters()]
            state = {key: value.clone() for key, value in optimizer.tensors().items()}
        optimizer.step(optimizer.norm())
    assert all(torch.equal(a, b) for a, b in zip(held, model.parameters(), strict=True))
    assert all(torch.equal(value, state[key]) for key, value in optimizer.tensors().items())


def _two_blocks() -> nn.Module:
    torch.manual_seed(0)
    stack = nn.ModuleDict({"blocks": nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])})
    model = nn.Sequential()
    model.add_module("stack", stack)
    model.forward = lambda x: stack["blocks"][1](stack["blocks"][0](x).tanh())  # type: ignore[method-assign,index]
    return model


def test_averages() -> None:
    model = nn.Linear(2, 1, bias=False)
    average = MovingAverage(model, 0.5)
    expected = model.weight.detach().clone()
    for step in range(1, 4):
        with torch.no_grad():
            model.weight.add_(1.0)
        average.update(model)
        decay = min(0.5, step / (step + 10))
        expected = decay * expected + (1 - decay) * model.weight.detach()
    torch.testing.assert_close(average.weights["weight"], expected)
    torch.testing.assert_close(mean_of([{"a": torch.ones(2)}, {"a": 3 * torch.ones(2)}])["a"], 2 * torch.ones(2))


def test_energy_adds_up_and_says_where_it_comes_from() -> None:
    meter = Meter(torch.device("cpu"), Energy(100.0, {"cpu": 3.6e6}, {}))
    found = meter.read()
    assert found.seconds > 100
    assert found.joules["cpu"] >= 3.6e6
    assert found.sources["cpu"] == "RAPL" or found.sources["cpu"].startswith("estimated at")
    report = Energy(1.0, {"cpu": 3.6e6}, {"cpu": "estimated at 20 W"}).report(500.0)
    assert report["kwh"] == 1.0
    assert report["co2_g"] == 500.0
    assert report["estimated"] is True
