"""R-Drop: two passes in one batch."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from qkv.common.batch import Images, Labelled, Spans, Tokens
from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.objectives import AnswerSpan, Classify, Tag, weighted
from tests.contracts.entries import make, shrink

SENTENCES = [[5, 6, 7], [8, 9], [4, 4, 4, 4]]


def test_twice_lists_everything_two_times() -> None:
    tokens = Tokens.of(SENTENCES, segments=[[0, 0, 1], [0, 1], [0, 0, 0, 1]])
    tokens = dataclasses.replace(tokens, positions=torch.arange(9))
    both, listed = tokens.twice(), Tokens.of(2 * SENTENCES)
    assert torch.equal(both.ids, listed.ids)
    assert torch.equal(both.layout.offsets, listed.layout.offsets)
    assert torch.equal(both.layout.lengths, listed.layout.lengths)
    assert both.segments is not None
    assert both.segments.tolist() == 2 * [0, 0, 1, 0, 1, 0, 0, 0, 1]
    assert both.positions is not None
    assert both.positions.tolist() == 2 * list(range(9))
    assert Images(torch.ones(2, 3, 4, 4)).twice().pixels.shape == (4, 3, 4, 4)


def test_the_loss_is_both_passes_and_half_of_alpha_times_their_distance() -> None:
    model = make(shrink(catalogue.preset("bert-base"), heads=["classify"], dropout=0.4), train=True)
    batch, objective = Labelled(Tokens.of(SENTENCES), torch.tensor([0, 1, -100])), Classify(r_drop=4.0)
    torch.manual_seed(3)
    losses = objective(model, batch)
    torch.manual_seed(3)
    logits = model.logits(model.states_for(Tokens.of(2 * SENTENCES), "classify"), "classify").log_softmax(-1)
    p, q = logits.chunk(2)
    nll = sum(F.nll_loss(x[:2], batch.labels[:2]) for x in (p, q))
    kl = sum(F.kl_div(a[:2], b[:2], reduction="batchmean", log_target=True) for a, b in ((p, q), (q, p))) / 2
    assert kl > 0
    torch.testing.assert_close(weighted(losses, objective.weights), (nll + 4.0 * kl) / 2, atol=1e-5, rtol=1e-5)
    assert {name: int(n) for name, n in objective.counts(batch).items()} == {"classify": 4, "r_drop": 2}
    assert {name: int(loss.count) for name, loss in losses.items()} == {"classify": 4, "r_drop": 2}


def test_without_a_gradient_there_is_one_pass() -> None:
    model = make(shrink(catalogue.preset("bert-base"), heads=["classify"]))
    batch = Labelled(Tokens.of(SENTENCES), torch.tensor([0, 1, 1]))
    with torch.no_grad():
        assert set(Classify(r_drop=1.0)(model, batch)) == {"classify"}
    with pytest.raises(UsageError, match="r_drop must be at least 0"):
        Classify(r_drop=-1.0)


def test_tags_of_two_passes_agree_where_they_are_asked_for() -> None:
    model = make(shrink(catalogue.preset("bert-base"), heads=["tag"], dropout=0.4), train=True)
    tags = torch.tensor([-100, 1, 0, 1, -100, 0, 0, -100, 1])
    batch, objective = Labelled(Tokens.of(SENTENCES), tags), Tag(r_drop=4.0)
    torch.manual_seed(3)
    losses = objective(model, batch)
    torch.manual_seed(3)
    log_p = model.logits(model(Tokens.of(2 * SENTENCES)), "tag").log_softmax(-1)
    p, q = (x[tags != -100] for x in log_p.chunk(2))
    nll = sum(F.nll_loss(x, tags[tags != -100]) for x in (p, q))
    kl = sum(F.kl_div(a, b, reduction="batchmean", log_target=True) for a, b in ((p, q), (q, p))) / 2
    torch.testing.assert_close(weighted(losses, objective.weights), (nll + 4.0 * kl) / 2, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        assert set(objective(model, batch)) == {"tag"}
    with pytest.raises(UsageError, match="r_drop must be at least 0"):
        Tag(r_drop=-1.0)


def test_starts_and_ends_of_two_passes_agree_within_each_sequence() -> None:
    model = make(shrink(catalogue.preset("bert-base"), heads=["span"], dropout=0.4), train=True)
    starts, ends = torch.tensor([0, -100, 1]), torch.tensor([2, -100, 3])
    batch, objective = Spans(Tokens.of(SENTENCES), starts, ends), AnswerSpan(r_drop=4.0)
    torch.manual_seed(3)
    losses = objective(model, batch)
    torch.manual_seed(3)
    scores = model.logits(model(Tokens.of(2 * SENTENCES)), "span").split(2 * [len(ids) for ids in SENTENCES])
    expected = torch.zeros(())
    for i in (0, 2):  # nothing is asked of the second sequence
        for column, place in ((0, starts[i]), (1, ends[i])):
            p, q = (scores[n][:, column].log_softmax(0) for n in (i, i + 3))
            kl = sum(F.kl_div(a, b, reduction="sum", log_target=True) for a, b in ((p, q), (q, p))) / 2
            assert kl > 0
            expected = expected + (-p[place] - q[place] + 4.0 * kl) / 2
    torch.testing.assert_close(weighted(losses, objective.weights), expected / 4, atol=1e-5, rtol=1e-5)
    assert {name: int(n) for name, n in objective.counts(batch).items()} == {"span": 4, "r_drop": 2}
    assert {name: int(loss.count) for name, loss in losses.items()} == {"span": 4, "r_drop": 2}
    with torch.no_grad():
        assert set(objective(model, batch)) == {"span"}
    with pytest.raises(UsageError, match="r_drop must be at least 0"):
        AnswerSpan(r_drop=-1.0)
