"""Classes, numbers, tags and spans against the losses of `transformers`, and spans against a loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.batch import Images, Labelled, Spans, Tokens
from qkv.common.ragged import Ragged
from qkv.objectives import AnswerSpan, Classify, ClassifyAny, Regress, Tag
from qkv.objectives.span import ragged_log_softmax
from tests.objectives.shared import bert, both, close, draw, mean, only, pack, ragged
from tests.parity.test_hf import BERT, VIT

ONE, ANY, NUMBER = "single_label_classification", "multi_label_classification", "regression"


@pytest.mark.parametrize(
    ("objective", "problem", "labels", "count"),
    [
        (Classify(), ONE, torch.tensor([0, 2, 1, 2]), 4),
        (ClassifyAny(), ANY, torch.tensor([[0, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 1.0]]), 12),
        (Regress(), NUMBER, torch.tensor([0.5, -1.0, 2.0, 0.0]), 4),
    ],
)
def test_labels_of_texts_are_learned_as_theirs(
    objective: Any, problem: str, labels: torch.Tensor, count: int, tmp_path: Any
) -> None:
    numbers = BERT | {"problem_type": problem, "num_labels": 1 if problem == NUMBER else 3}
    theirs, ours = both(hf.BertForSequenceClassification, hf.BertConfig, numbers, tmp_path)
    ids = draw(4, 8)
    found = only(objective(ours, Labelled(pack(ids), labels)))
    close(mean(found), theirs(input_ids=ids, labels=labels).loss)
    assert found.count == count


def test_labels_of_pictures_are_learned_as_theirs(tmp_path: Any) -> None:
    theirs, ours = both(hf.ViTForImageClassification, hf.ViTConfig, VIT, tmp_path)
    pixels, labels = torch.randn(4, 3, 24, 24), torch.tensor([0, 2, 1, 2])
    result = theirs(pixel_values=pixels, labels=labels)
    found = only(Classify()(ours, Labelled(Images(pixels), labels)))
    close(mean(found), result.loss)
    smoothed = only(Classify(smoothing=0.2)(ours, Labelled(Images(pixels), labels)))
    close(mean(smoothed), F.cross_entropy(result.logits, labels, label_smoothing=0.2))


def test_tags_are_learned_as_theirs(tmp_path: Any) -> None:
    theirs, ours = both(hf.BertForTokenClassification, hf.BertConfig, BERT, tmp_path)
    ids, labels = draw(3, 8), draw(3, 8, low=0, high=3)
    labels[:, ::3] = -100
    result = theirs(input_ids=ids, labels=labels)
    found = only(Tag()(ours, Labelled(pack(ids), labels.flatten())))
    close(mean(found), result.loss)
    assert found.count == 15
    assert found.sums["correct"] == (result.logits.argmax(-1) == labels).sum()


def test_answers_are_learned_as_theirs(tmp_path: Any) -> None:
    theirs, ours = both(hf.BertForQuestionAnswering, hf.BertConfig, BERT | {"num_labels": 2}, tmp_path)
    sequences, starts, ends = ragged(), torch.tensor([1, 0, 7, 2]), torch.tensor([4, 0, 9, 2])
    expected, right = 0.0, 0
    for ids, start, end in zip(sequences, starts, ends, strict=True):
        result = theirs(input_ids=torch.tensor([ids]), start_positions=start[None], end_positions=end[None])
        expected += result.loss
        right += bool(result.start_logits.argmax() == start and result.end_logits.argmax() == end)
    found = only(AnswerSpan()(ours, Spans(Tokens.of(sequences), starts, ends)))
    close(found.total, expected)
    assert found.count == 4
    assert found.sums["correct"] == right >= 1  # the sequence of one token has no other answer


def test_a_span_that_was_cut_off_is_not_asked_for() -> None:
    """Its rows would be the neighbour's."""
    model, tokens = bert(), Tokens.of(ragged())
    whole = only(AnswerSpan()(model, Spans(tokens, torch.tensor([1, 0, 3, 2]), torch.tensor([2, 0, 3, 2]))))
    cut = only(AnswerSpan()(model, Spans(tokens, torch.tensor([1, 0, 3, -100]), torch.tensor([5, 1, 3, -100]))))
    assert (whole.count, cut.count) == (4, 1)
    alone = Spans(Tokens.of(ragged()[2:3]), torch.tensor([3]), torch.tensor([3]))
    close(cut.total, only(AnswerSpan()(model, alone)).total)
    nothing = torch.full((4,), -100)
    assert only(AnswerSpan()(model, Spans(tokens, nothing, nothing))).total == 0


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_ragged_softmax_is_a_softmax_of_each_sequence(lengths: list[int]) -> None:
    layout = Ragged.of(lengths)
    scores = (torch.randn(sum(lengths), 2, generator=torch.Generator().manual_seed(0)) * 300).requires_grad_()
    mine = ragged_log_softmax(scores, layout)
    other = torch.cat([part.log_softmax(0) for part in layout.split(scores)])
    close(mine, other, 1e-4)
    weights = torch.randn(mine.shape)
    (first,) = torch.autograd.grad((mine * weights).sum(), scores, retain_graph=True)
    (second,) = torch.autograd.grad((other * weights).sum(), scores)
    close(first, second, 1e-4)
