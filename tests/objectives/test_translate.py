"""Translation against Marian, T5 and torch; R-Drop against its formula."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers as hf

from qkv.common.batch import Pairs, Tokens, Translated
from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.objectives import Translate, weighted
from qkv.objectives.r_drop import distance
from tests.contracts.entries import make, shrink
from tests.objectives.shared import both, close, draw, mean, only, pack, ragged, tiny
from tests.parity.test_hf import MARIAN, T5


@pytest.mark.parametrize(
    ("model", "config", "numbers"),
    [(hf.MarianMTModel, hf.MarianConfig, MARIAN), (hf.T5ForConditionalGeneration, hf.T5Config, T5)],
    ids=["marian", "t5"],
)
def test_translation_is_theirs(model: type, config: type, numbers: dict[str, Any], tmp_path: Any) -> None:
    theirs, ours = both(model, config, numbers, tmp_path)
    source, labels = draw(3, 7), draw(3, 5, seed=1)
    result = theirs(input_ids=source, labels=labels)
    started = torch.cat([torch.zeros(3, 1, dtype=torch.int64), labels[:, :-1]], dim=1)
    batch = Translated(Pairs(pack(source), pack(started)), labels.flatten())
    found = only(Translate(smoothing=0.0)(ours, batch))
    close(mean(found), result.loss)
    assert found.count == 15
    assert found.sums["correct"] == (result.logits.argmax(-1) == labels).sum()
    smoothed = only(Translate()(ours, batch))
    logits = result.logits.flatten(0, 1)
    close(smoothed.total, F.cross_entropy(logits, labels.flatten(), reduction="sum", label_smoothing=0.1), 1e-4)
    close(smoothed.sums["nll"], found.total, 1e-4)


def translated() -> Translated:
    target = ragged([3, 6, 1, 4], seed=1)
    wanted = torch.tensor([i for ids in target for i in [*ids[1:], 1]])
    return Translated(Pairs(Tokens.of(ragged()), Tokens.of(target)), wanted)


@pytest.mark.parametrize("name", ["transformer-base", "t5-small", "rnn-base"])
def test_every_encoder_decoder_learns(name: str) -> None:
    model = tiny(name)
    found = only(Translate()(model, translated()))
    found.total.backward()
    assert found.count == 14
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]


def test_distance_is_the_mean_of_both_divergences() -> None:
    p, q = torch.randn(6, 5).log_softmax(-1), torch.randn(6, 5).log_softmax(-1)
    wanted = torch.tensor([1, 2, -100, 0, 4, -100])
    kept = wanted >= 0
    there = F.kl_div(q[kept], p[kept], reduction="sum", log_target=True)
    back = F.kl_div(p[kept], q[kept], reduction="sum", log_target=True)
    found = distance(torch.cat([p + 3.0, q - 1.0]), wanted)  # scores, not log-probabilities
    close(found.total, (there + back) / 2)
    assert found.count == 4


def test_agreement_is_half_of_equation_4() -> None:
    """NLL of both passes + α · KL, over 2: with the same dropout masks drawn again over the sequences listed twice."""
    model = make(dataclasses.replace(shrink(catalogue.preset("transformer-base")), dropout=0.3), train=True)
    batch, objective = translated(), Translate(smoothing=0.0, r_drop=5.0)
    torch.manual_seed(3)
    losses = objective(model, batch)
    torch.manual_seed(3)
    sides = (batch.pairs.source, batch.pairs.target)
    source, target = ([x.tolist() for x in side.layout.split(side.ids)] for side in sides)
    p, q = model.logits(model(Pairs(Tokens.of(2 * source), Tokens.of(2 * target))), "lm").log_softmax(-1).chunk(2)
    nll = sum(F.nll_loss(x, batch.wanted) for x in (p, q))
    kl = sum(F.kl_div(a, b, reduction="batchmean", log_target=True) for a, b in ((p, q), (q, p))) / 2
    assert kl > 0
    close(weighted(losses, objective.weights), (nll + 5.0 * kl) / 2, 1e-4)
    assert losses["translate"].count == 2 * losses["r_drop"].count == 28


def test_agreement_needs_dropout_and_a_gradient() -> None:
    model, batch = tiny("transformer-base"), translated()
    close(Translate(r_drop=5.0)(model, batch)["r_drop"].total, 0.0)
    with torch.no_grad():
        assert list(Translate(r_drop=5.0)(model, batch)) == ["translate"]
    with pytest.raises(UsageError, match="got -1"):
        Translate(r_drop=-1.0)
