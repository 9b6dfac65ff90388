"""Every product with weights goes through one call, so that a quantised or sharded one can stand there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.common.batch import Pairs
from qkv.nn.linear import Linear, TableProduct, replace_products
from qkv.nn.recurrent import RecurrentDecoder
from tests.contracts.entries import MODELS, batch_for, make, outputs


class Wrapped(nn.Module):
    """Answers the calls of a product and nothing else: who reads its weights by hand fails."""

    def __init__(self, inner: Linear | TableProduct) -> None:
        super().__init__()
        self.inner = [inner]  # out of sight: no `weight`, no parameters
        self.calls = 0

    def forward(self, *x: Any) -> Tensor:
        self.calls += 1
        return self.inner[0](*x)

    def part(self, x: Tensor, start: int, stop: int) -> Tensor:
        self.calls += 1
        return self.inner[0].part(x, start, stop)  # type: ignore[union-attr, operator]


def everything(model: Any, batch: Any) -> list[Tensor]:
    """States and scores, the states of some rows alone, and two steps of decoding."""
    found = [tensor for tensors in outputs(model, batch).values() for tensor in tensors]
    read = batch.source if isinstance(batch, Pairs) else batch
    found.append(model.encoder_states(read).states)
    found.append(model.states_at(read, torch.tensor([0, 2, 3])))
    found += [model.states_for(read, name).states for name in model.heads]
    if hasattr(model, "start") and "lm" in model.heads:
        stepper = model.start(read)
        ids = torch.zeros(read.layout.num_sequences, dtype=torch.int64)
        found += [stepper.step(ids), stepper.step(ids + 1)]
    return found


@pytest.mark.parametrize("name", MODELS)
def test_another_product_with_the_same_call_gives_the_same_outputs(name: str) -> None:
    config = MODELS[name]
    model, batch, names = make(config), batch_for(config), list[str]()
    with torch.no_grad():
        wanted = everything(model, batch)
        replace_products(model, lambda place, product: names.append(place) or Wrapped(product))  # type: ignore[func-returns-value]
        found = everything(model, batch)
    assert all(torch.equal(a, b) for a, b in zip(wanted, found, strict=True))
    unused = [n for n, m in model.named_modules() if isinstance(m, Wrapped) and not m.calls]
    assert names
    assert not unused


@pytest.mark.parametrize("name", MODELS)
def test_every_matrix_belongs_to_a_product_a_table_or_a_part_of_torch(name: str) -> None:
    model = make(MODELS[name])
    owned = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, Linear | nn.Embedding | nn.Conv2d | nn.LSTM | nn.GRU)
        for parameter in module.parameters()
    }
    heads = {id(head.weight) for head in model.modules() if any(isinstance(c, TableProduct) for c in head.children())}
    left = [n for n, p in model.named_parameters() if p.dim() > 1 and id(p) not in owned | heads]
    assert all("position" in n or n.endswith("embeddings.leading") for n in left), left
    assert not [n for n, m in model.named_modules() if type(m) is nn.Linear]


def test_part_of_a_product_is_part_of_the_whole() -> None:
    x = torch.randn(5, 6)
    for bias in (True, False):
        linear = Linear(6, 9, bias=bias)
        torch.testing.assert_close(linear.part(x, 2, 7), linear(x)[:, 2:7])


def test_the_names_of_the_weights_are_those_of_torch() -> None:
    assert list(Linear(2, 3).state_dict()) == ["weight", "bias"]
    assert not TableProduct().state_dict()
    names = RecurrentDecoder(8).state_dict()
    assert {"combine.weight", "bridge.bias", "attention.key.weight"} <= set(names)
