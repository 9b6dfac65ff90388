"""GloVe against a loop, against the factors of a table that has them, and through a recipe."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from qkv.common.batch import Counted, size
from qkv.common.errors import UsageError
from qkv.data.config import DataConfig
from qkv.models.word2vec import Glove as GloveTables
from qkv.models.word2vec import Word2VecConfig, build_glove
from qkv.objectives.words import Glove
from qkv.tasks.words import WordsTask
from tests.objectives.shared import close, draw, only

INPUTS, OUTPUTS = draw(7, low=0, high=9, seed=1), draw(7, low=0, high=9, seed=2)
COUNTS = torch.tensor([0.1, 1.0, 99.0, 100.0, 101.0, 5000.0, 3.5])


def tables() -> GloveTables:
    model = build_glove(Word2VecConfig(vocab_size=9, dim=4))
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    return model


@torch.no_grad()
def test_the_loss_is_the_papers() -> None:
    model, total = tables(), 0.0
    for i, j, x in zip(INPUTS.tolist(), OUTPUTS.tolist(), COUNTS.tolist(), strict=True):
        said = float(model.inputs.weight[i] @ model.outputs.weight[j])
        said += float(model.input_bias.weight[i, 0] + model.output_bias.weight[j, 0])
        total += (1.0 if x >= 100 else (x / 100) ** 0.75) * (said - math.log(x)) ** 2
    batch = Counted.of(INPUTS, OUTPUTS, COUNTS)
    found = only(Glove()(model, batch))
    close(found.total, total, 1e-3)
    assert found.count == 7 == Glove().counts(batch)["glove"]
    assert size(batch) == (7, "words")


def test_every_table_gets_a_gradient_and_the_loss_falls_to_nothing_where_it_can() -> None:
    """log X of rank 2 plus biases has an exact answer; training comes near it, and the sum is what is kept."""
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(12, 2)), rng.normal(size=12)
    log_x = w @ w.T + b[:, None] + b
    i, j = np.divmod(np.arange(144), 12)
    batch = Counted.of(*map(torch.from_numpy, (i, j)), torch.from_numpy(np.exp(log_x.ravel())))
    torch.manual_seed(0)
    model = build_glove(Word2VecConfig(vocab_size=12, dim=3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    losses = []
    for _ in range(400):
        loss = only(Glove(x_max=1.0)(model, batch))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
        optimizer.step()
        losses.append(loss.total.item() / 144)
    assert losses[-1] < 0.01 * losses[0]
    kept = WordsTask.read({"kind": "glove"}, DataConfig()).saved(model, None, None)[""][1]
    torch.testing.assert_close(kept.inputs.weight, model.inputs.weight + model.outputs.weight)
    assert set(kept.state_dict()) == {"inputs.weight", "outputs.weight"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "glvoe"}, "unknown objective.kind 'glvoe'; did you mean 'glove'"),
        ({"window": 0}, "at least 1, got 0 and 5"),
        ({"x_max": 0.0}, "x_max above 0, got 0.0001 and 0"),
    ],
)
def test_what_cannot_be_is_a_sentence(settings: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        WordsTask.read(settings, DataConfig())
