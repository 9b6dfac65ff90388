"""Language modelling against the losses of `transformers` on the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf

from qkv.common.batch import Following, Masked, Tokens
from qkv.common.errors import UsageError
from qkv.objectives import MaskedToken, NextToken, weighted
from tests.objectives.shared import bert, both, close, draw, mean, only, pack, ragged
from tests.parity.test_hf import BERT, GPT2


def test_next_token_is_gpt2s(tmp_path: Any) -> None:
    theirs, ours = both(hf.GPT2LMHeadModel, hf.GPT2Config, GPT2, tmp_path)
    ids = draw(3, 9)
    labels = ids.clone()
    labels[0, :4] = -100  # a prompt
    expected = theirs(input_ids=ids, labels=labels).loss
    nothing = torch.full((3, 1), -100)
    wanted = torch.cat([labels[:, 1:], nothing], dim=1).flatten()
    found = only(NextToken()(ours, Following(pack(ids), wanted)))
    close(mean(found), expected)
    assert found.count == 3 * 8 - 3


def test_bert_pre_training_is_theirs(tmp_path: Any) -> None:
    theirs, ours = both(hf.BertForPreTraining, hf.BertConfig, BERT, tmp_path)
    ids, segments = draw(4, 10), torch.tensor([[0] * 4 + [1] * 6] * 4)
    hidden = torch.rand(4, 10, generator=torch.Generator().manual_seed(1)) < 0.3
    labels, pairs = draw(4, 10, seed=2).masked_fill(~hidden, -100), torch.tensor([0, 1, 1, 0])
    result = theirs(input_ids=ids, token_type_ids=segments, labels=labels, next_sentence_label=pairs)
    rows = hidden.flatten().nonzero().squeeze(1)
    batch = Masked(pack(ids, segments), rows, labels.flatten()[rows], pairs)
    objective = MaskedToken(next_sentence=True)
    losses = objective(ours, batch)
    close(weighted(losses, objective.weights), result.loss)
    assert losses["mlm"].count == hidden.sum()
    assert losses["nsp"].count == 4
    best = result.prediction_logits.argmax(-1)
    assert losses["mlm"].sums["correct"] == (best == labels).sum()
    assert losses["nsp"].sums["correct"] == (result.seq_relationship_logits.argmax(-1) == pairs).sum()
    close(only(MaskedToken()(ours, batch)).total, losses["mlm"].total)


def test_a_batch_without_a_hidden_token_has_a_loss_of_nothing() -> None:
    model, nothing = bert(), torch.zeros(0, dtype=torch.int64)
    found = only(MaskedToken()(model, Masked(Tokens.of(ragged()), nothing, nothing)))
    found.total.backward()
    assert (found.total, found.count) == (0.0, 0)
    assert model.embeddings.token.weight.grad.abs().sum() == 0


def test_pairs_must_be_there() -> None:
    rows = torch.tensor([0])
    with pytest.raises(UsageError, match="the batch has none"):
        MaskedToken(next_sentence=True)(bert(), Masked(Tokens.of(ragged()), rows, rows))
