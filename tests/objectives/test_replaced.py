"""ELECTRA's two losses against theirs, and its draws."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers as hf

from qkv.common.batch import Masked, Tokens
from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.models.electra import ElectraPair, build_pair
from qkv.objectives import MaskedToken, ReplacedToken, weighted
from qkv.objectives.replaced import draw, fill
from tests.contracts.entries import shrink
from tests.objectives.shared import LENGTHS, V, both, close, mean, only, ragged
from tests.parity.test_hf import BERT


def pair(*heads: str, **changes: Any) -> ElectraPair:
    torch.manual_seed(0)
    model = build_pair(
        generator=shrink(catalogue.preset("electra-small-generator"), dim=16, **changes),
        discriminator=shrink(catalogue.preset("electra-small", heads=["replaced", *heads]), **changes),
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def masked() -> Masked:
    segments = [[int(2 * i >= length) for i in range(length)] for length in LENGTHS]
    tokens = Tokens.of(ragged(), segments=segments)
    rows = torch.tensor([0, 3, 5, 8, 9, 20])
    wanted = tokens.ids[rows].clone()
    tokens.ids[rows[:4]] = 3
    return Masked(tokens, rows, wanted)


def test_the_discriminators_loss_is_theirs(tmp_path: Any) -> None:
    numbers = BERT | {"embedding_size": 16}
    theirs, ours = both(hf.ElectraForPreTraining, hf.ElectraConfig, numbers, tmp_path / "d")
    _, generator = both(hf.ElectraForMaskedLM, hf.ElectraConfig, numbers, tmp_path / "g")
    model: Any = torch.nn.ModuleDict({"generator": generator, "discriminator": ours})
    batch = masked()
    torch.manual_seed(1)
    losses = ReplacedToken()(model, batch)
    torch.manual_seed(1)
    scores = generator.head("mlm")(generator(batch.tokens).states[batch.rows], generator.table)
    filled, replaced = fill(batch, draw(scores, 1.0))
    assert 0 < replaced.sum() <= 6
    total, right, layout = 0.0, 0, filled.layout
    assert filled.segments is not None
    for ids, segments, labels in zip(*map(layout.split, (filled.ids, filled.segments, replaced)), strict=True):
        result = theirs(input_ids=ids[None], token_type_ids=segments[None], labels=labels[None])
        total += result.loss * len(ids)
        right += ((result.logits > 0).long() == labels).sum()
    close(losses["replaced"].total, total, 1e-4)
    assert losses["replaced"].count == 25
    assert losses["replaced"].sums["correct"] == right
    close(losses["mlm"].total, only(MaskedToken()(generator, batch)).total)
    assert weighted(losses, ReplacedToken().weights) == mean(losses["mlm"]) + 50 * mean(losses["replaced"])


def test_filling() -> None:
    """A right guess is an original; a row that is not asked for stays as it was read."""
    tokens = Tokens.of([[10, 3, 12], [3, 14]])
    batch = Masked(tokens, torch.tensor([1, 3, 4]), torch.tensor([11, 13, -100]))
    filled, replaced = fill(batch, torch.tensor([11, 20, 30]))
    assert filled.ids.tolist() == [10, 11, 12, 20, 14]
    assert replaced.tolist() == [0, 0, 0, 1, 0]
    assert tokens.ids.tolist() == [10, 3, 12, 3, 14]


def test_masks_that_stay() -> None:
    """Every second mask stays as it was read and has no verdict; its filler-free count is known in advance."""
    tokens = Tokens.of([[10, 3, 12], [3, 14, 3]])
    batch = Masked(tokens, torch.tensor([1, 3, 5]), torch.tensor([11, 13, 15]))
    filled, replaced = fill(batch, torch.tensor([7, 20, 30]), 2)
    assert filled.ids.tolist() == [10, 3, 12, 20, 14, 3]
    assert replaced.tolist() == [0, -100, 0, 1, 0, -100]
    asked = Masked(tokens, torch.tensor([1, 3, 5]), torch.tensor([11, 13, -100]))
    assert fill(asked, torch.tensor([7, 20, 30]), 2)[1].tolist() == [0, -100, 0, 1, 0, 0]  # a filler is a token


def test_the_discriminator_learns_to_fill_the_masks_that_stay() -> None:
    model, batch, objective = pair("mlm"), masked(), ReplacedToken(keep_every=2)
    losses = objective(model, batch)
    assert list(losses) == list(objective.weights) == ["mlm", "replaced", "fill"]
    assert {name: int(loss.count) for name, loss in losses.items()} == {"mlm": 6, "replaced": 22, "fill": 3}
    assert {name: int(count) for name, count in objective.counts(batch).items()} == {
        name: int(loss.count) for name, loss in losses.items()
    }
    weighted(losses, objective.weights).backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    with torch.no_grad():  # as the discriminator alone would fill what it saw
        torch.manual_seed(1)
        scores = model.generator.head("mlm")(model.generator(batch.tokens).states[batch.rows], model.generator.table)
        seen, _ = fill(batch, draw(scores, 1.0), 2)
        torch.manual_seed(1)
        found = objective(model, batch)["fill"]
    assert seen.ids[batch.rows[::2]].equal(batch.tokens.ids[batch.rows[::2]])
    close(found.total, only(MaskedToken()(model.discriminator, Masked(seen, batch.rows[::2], batch.wanted[::2]))).total)


def test_draws_follow_the_softmax() -> None:
    torch.manual_seed(0)
    scores = torch.tensor([0.0, 1.0, 2.0, -torch.inf])
    drawn = draw(scores.expand(40_000, 4), 2.0)
    share = torch.bincount(drawn, minlength=4) / 40_000
    torch.testing.assert_close(share, (scores / 2).softmax(0), atol=0.01, rtol=0)
    assert (draw(scores.expand(100, 4), 1e-6) == 2).all()
    assert draw(torch.zeros(0, 4), 1.0).shape == (0,)


@pytest.mark.parametrize("train", [True, False])
def test_gradients_reach_every_parameter(train: bool) -> None:
    model = pair().train(train)
    objective = ReplacedToken()
    weighted(objective(model, masked()), objective.weights).backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]


def test_no_gradient_passes_through_the_draw() -> None:
    model = pair()
    ReplacedToken()(model, masked())["replaced"].total.backward()
    mine = {id(p) for p in model.discriminator.parameters()}
    assert all(p.grad is None for p in model.generator.parameters() if id(p) not in mine)


def test_temperature_has_limits() -> None:
    with pytest.raises(UsageError, match=r"got 0\.0"):
        ReplacedToken(temperature=0.0)


def test_the_table_learns_from_both_sides() -> None:
    model, batch = pair(), masked()
    table = model.discriminator.table
    losses = ReplacedToken()(model, batch)
    first, second = (torch.autograd.grad(losses[n].total, table, retain_graph=True)[0] for n in ("mlm", "replaced"))
    assert first.abs().sum() > 0
    assert second.abs().sum() > 0
    scores = F.linear(torch.zeros(1, 16), table)
    assert scores.shape == (1, V)
