"""A head that asks for some rows gets what it would get if all were computed: scores, losses, gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.common.batch import Labelled, Masked, Tokens
from qkv.common.ragged import Ragged
from qkv.common.rows import Rows
from qkv.insight.capture import capture
from qkv.models import catalogue
from qkv.models.position import POSITIONS
from qkv.models.skeleton import Headed
from qkv.objectives import Classify, ClassifyAny, MaskedToken, Regress
from tests.contracts.entries import LENGTHS, Whole, batch_for, make, sequences, shrink

HEADS = ["mlm", "classify", "regress"]
ENCODERS = {name: {"heads": HEADS} for name in ("bert-base", "roberta-base", "distilbert-base", "albert-base")}
ENCODERS |= {"electra-small": {"heads": HEADS}, "vit-b16": {"heads": ["classify"]}}
CLOSE = {"atol": 2e-6, "rtol": 1e-4}


def questions(config: Any) -> list[tuple[Any, Any]]:
    inputs, number = batch_for(config), len(LENGTHS)
    found: list[tuple[Any, Any]] = [
        (Classify(), Labelled(inputs, torch.arange(number) % 3)),
        (ClassifyAny(), Labelled(inputs, torch.arange(number * 3).view(number, 3) % 2)),
    ]
    if isinstance(inputs, Tokens):
        rows = torch.tensor([24, 3, 5, 7, 8, 0, 17])  # not in order; nothing of the second sequence but its one token
        found.append((Regress(), Labelled(inputs, torch.arange(number).float())))
        found.append((MaskedToken(), Masked(inputs, rows, torch.arange(7) + 3)))
    return found


def learned(model: Headed, asked: Any, objective: Any, batch: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    (loss,) = objective(asked, batch).values()
    loss.total.backward()
    return loss.total.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def same(config: Any) -> None:
    model = make(config, train=True)
    for objective, batch in questions(config):
        loss, gradients = learned(model, model, objective, batch)
        expected, others = learned(model, Whole(model), objective, batch)
        torch.testing.assert_close(loss, expected, **CLOSE)
        assert gradients.keys() == others.keys()
        for name in others:
            torch.testing.assert_close(gradients[name], others[name], **CLOSE)


def shapes(model: Headed, ask: Any) -> list[int]:
    """The rows that each feed-forward was given."""
    found: list[int] = []
    hooks = [
        module.register_forward_hook(lambda _m, args, _out: found.append(len(args[0])))
        for name, module in model.named_modules()
        if name.endswith("feedforward")
    ]
    ask()
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("name", ENCODERS)
def test_the_loss_and_every_gradient_are_the_same(name: str) -> None:
    same(shrink(catalogue.preset(name), **ENCODERS[name]))


@pytest.mark.parametrize("position", POSITIONS)
def test_so_they_are_with_each_position(position: str) -> None:
    same(shrink(catalogue.preset("bert-base"), heads=HEADS, position=position))


@pytest.mark.parametrize("position", POSITIONS)
def test_the_last_layer_computes_fewer_rows_only_where_no_row_must_know_where_it_stands(position: str) -> None:
    model = make(shrink(catalogue.preset("bert-base"), heads=HEADS, position=position))
    batch, total = Tokens.of(sequences(LENGTHS)), sum(LENGTHS)
    plain = position in ("learned", "sinusoidal", "none")
    assert shapes(model, lambda: model.states_for(batch, "classify")) == [total, len(LENGTHS) if plain else total]
    assert shapes(model, lambda: model.states_at(batch, torch.tensor([3, 9]))) == [total, 2 if plain else total]
    assert shapes(model, lambda: model.states_for(batch, "mlm")) == [total, total]


def test_a_causal_model_computes_all() -> None:
    model = make(shrink(catalogue.preset("gpt2"), heads=["lm", "classify"]))
    batch, total = Tokens.of(sequences(LENGTHS)), sum(LENGTHS)
    rows = torch.tensor([3, 9])
    assert shapes(model, lambda: model.states_for(batch, "classify")) == [total, total]
    assert shapes(model, lambda: model.states_at(batch, rows)) == [total, total]
    torch.testing.assert_close(model.states_at(batch, rows), model(batch).states[rows])


def test_who_watches_sees_every_row() -> None:
    model = make(shrink(catalogue.preset("bert-base"), heads=HEADS))
    with capture(model) as found:
        model.states_for(Tokens.of(sequences(LENGTHS)), "classify")
    for weights in found.weights().values():
        assert [w.shape[1:] for w in weights] == [(n, n) for n in LENGTHS]


@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=6), data=st.data())
@settings(max_examples=100, deadline=None)
def test_rows_know_their_sequences(lengths: list[int], data: st.DataObject) -> None:
    layout = Ragged.of(lengths)
    chosen = data.draw(st.sets(st.integers(0, max(sum(lengths) - 1, 0)))) if sum(lengths) else set()
    rows = Rows.at(layout, torch.tensor(sorted(chosen), dtype=torch.int64))
    owner = [b for b, n in enumerate(lengths) for _ in range(n)]
    assert rows.layout.host_lengths == [sum(owner[row] == b for row in chosen) for b in range(len(lengths))]
    assert rows.layout.offsets.tolist() == [0, *torch.tensor(rows.layout.host_lengths).cumsum(0).tolist()]
    assert rows.layout.max_length >= max(rows.layout.host_lengths)
    first = Rows.first(layout)
    assert first.layout.lengths.tolist() == first.layout.host_lengths == [1] * len(lengths)
    starts = [sum(lengths[:b]) for b in range(len(lengths))]
    assert all(row == start for row, start, n in zip(first.index.tolist(), starts, lengths, strict=True) if n)
