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


def _headed() -> nn.Module:
    return make(shrink(catalogue.preset("bert-base"), heads=["pool", "classify"]), train=True)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_each_layer_has_its_share_of_the_rate(name: str) -> None:
    """Against the rule written out by hand: heads and the last layer 1, each layer below × 0.5, embeddings lowest."""
    model = _headed()
    layers = len({n.split(".")[2] for n, _ in model.named_parameters() if ".blocks." in n})
    optimizer = Optimizer(model, OptimConfig(name=name, lr=0.8, layer_decay=0.5))
    optimizer.set_rate(0.25)
    seen = set()
    for group in (g for inner in optimizer.inner for g in inner.param_groups):
        assert group["params"]
        for parameter in group["params"]:
            place = optimizer.names[parameter].split(".")
            below = layers if place[0] == "embeddings" else layers - 1 - int(place[2]) if "blocks" in place else 0
            assert float(group["lr"]) == pytest.approx(0.8 * 0.25 * 0.5**below)
            assert group["weight_decay"] == (0.01 if parameter.dim() >= 2 else 0.0)
            seen.add(optimizer.names[parameter])
    assert seen == {n for n, _ in model.named_parameters()}


def test_without_decay_the_groups_are_two_with_one_rate() -> None:
    model = _headed()
    optimizer = Optimizer(model, OptimConfig())
    matrices, others = optimizer.inner[0].param_groups
    assert [id(p) for p in matrices["params"]] == [id(p) for p in model.parameters() if p.dim() >= 2]
    assert [id(p) for p in others["params"]] == [id(p) for p in model.parameters() if p.dim() < 2]
    assert matrices["lr"] is others["lr"]  # one tensor: what a recorded step reads
    assert isinstance(matrices["lr"], torch.Tensor)


def test_rates_are_changed_in_place() -> None:
    """A recorded step reads the tensors it was recorded with: they must stay the same ones."""
    optimizer = Optimizer(_headed(), OptimConfig(lr=0.1, layer_decay=0.5))
    before = [group["lr"] for group in optimizer.inner[0].param_groups]
    assert len({id(rate) for rate in before}) == len(optimizer.rates) > 2
    optimizer.set_rate(0.0)
    after = [group["lr"] for group in optimizer.inner[0].param_groups]
    assert all(a is b and float(a) == 0.0 for a, b in zip(before, after, strict=True))


def test_a_step_with_layer_decay_is_torchs_with_rates_by_group() -> None:
    mine, theirs = _headed(), _headed()
    theirs.load_state_dict(mine.state_dict())
    config = OptimConfig(lr=0.01, layer_decay=0.5, clip=0.0, weight_decay=0.0)
    ours = Optimizer(mine, config)
    last = max(int(n.split(".")[2]) for n, _ in theirs.named_parameters() if ".blocks." in n)

    def share(name: str) -> float:
        place = name.split(".")
        return 0.5 ** (last + 1 if place[0] == "embeddings" else last - int(place[2]) if "blocks" in place else 0)

    groups = [{"params": [p], "lr": 0.01 * share(n)} for n, p in theirs.named_parameters()]
    other = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, foreach=False)
    for step in range(3):
        for model in (mine, theirs):
            for number, parameter in enumerate(model.parameters()):
                draw = torch.Generator().manual_seed(100 * step + number)
                parameter.grad = torch.randn(parameter.shape, generator=draw)
        ours.step(ours.norm())
        other.step()
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_layer_decay_goes_on_bit_for_bit(name: str) -> None:
    config = OptimConfig(name=name, lr=0.01, layer_decay=0.7)

    def steps(model: nn.Module, optimizer: Optimizer, numbers: range) -> None:
        for step in numbers:
            for number, parameter in enumerate(model.parameters()):
                draw = torch.Generator().manual_seed(100 * step + number)
                parameter.grad = torch.randn(parameter.shape, generator=draw)
            optimizer.set_rate(1 / (step + 1))
            optimizer.step(optimizer.norm())

    whole, cut = _headed(), _headed()
    cut.load_state_dict(whole.state_dict())
    steps(whole, Optimizer(whole, config), range(6))
    first = Optimizer(cut, config)
    steps(cut, first, range(3))
    second = Optimizer(cut, config)
    second.restore({key: value.clone() for key, value in first.tensors().items()})
    steps(cut, second, range(3, 6))
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), cut.parameters(), strict=True))
