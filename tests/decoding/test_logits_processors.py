"""Each logits processor against the one of the same name in `transformers`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.decoding.logits_processors import (
    Forbidden,
    ForcedPrefix,
    History,
    MinLength,
    MinP,
    NoRepeat,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
)

V = 7
histories = st.integers(0, 9).flatmap(
    lambda length: st.lists(st.lists(st.integers(0, V - 1), min_size=length, max_size=length), min_size=1, max_size=3)
)


def scores_for(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, V, generator=torch.Generator().manual_seed(seed)) * 3


def same(processor: Any, reference: Any, said: list[list[int]], seed: int) -> None:
    scores = scores_for(len(said), seed)
    before = scores.clone()
    wanted = reference(torch.tensor(said, dtype=torch.int64).view(len(said), -1), scores.clone())
    torch.testing.assert_close(processor(scores, History.of(said)), wanted)
    assert bool(((scores == before) | (scores == -torch.inf)).all()), "in place a processor does no more than forbid"


@given(histories, st.integers(0, 99), st.sampled_from([0.7, 1.3]))
def test_repetition_penalty(said: list[list[int]], seed: int, penalty: float) -> None:
    same(RepetitionPenalty(penalty), hf.RepetitionPenaltyLogitsProcessor(penalty), said, seed)


@given(histories, st.integers(1, 4), st.integers(0, 99))
def test_no_repeat(said: list[list[int]], size: int, seed: int) -> None:
    same(NoRepeat(size), hf.NoRepeatNGramLogitsProcessor(size), said, seed)


words = st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=3), min_size=1, max_size=4)


@given(histories, words, st.integers(0, 99))
def test_forbidden(said: list[list[int]], given_words: list[list[int]], seed: int) -> None:
    same(Forbidden(given_words), hf.NoBadWordsLogitsProcessor(given_words), said, seed)


@given(st.integers(0, 99), st.floats(0.2, 3), st.integers(1, V), st.floats(0.05, 0.99), st.floats(0.01, 0.9))
def test_what_is_drawn_from(seed: int, temperature: float, k: int, top_p: float, min_p: float) -> None:
    pairs = [
        (Temperature(temperature), hf.TemperatureLogitsWarper(temperature)),
        (TopK(k), hf.TopKLogitsWarper(k)),
        (TopP(top_p), hf.TopPLogitsWarper(top_p)),
        (MinP(min_p), hf.MinPLogitsWarper(min_p)),
    ]
    for processor, warper in pairs:
        same(processor, warper, [[1]] * 4, seed)


def test_the_end_waits_for_the_minimum() -> None:
    processor, history = MinLength(2, 3), History.of([[4, 4, 4]])  # a prompt is no part of the length
    for length in range(4):
        changed = processor(scores_for(1), history)
        assert (changed[0, 3] == -torch.inf) == (length < 2)
        assert torch.equal(changed[0, :3], scores_for(1)[0, :3])
        history = history.then(torch.tensor([0]), torch.tensor([1]))


@given(st.lists(st.lists(st.integers(0, V - 1), max_size=5), min_size=1, max_size=4), st.integers(1, 3))
def test_prompts_of_different_lengths_are_each_their_own(prompts: list[list[int]], size: int) -> None:
    for processor in (RepetitionPenalty(1.5), NoRepeat(size), Forbidden([[1], [2, 3]])):
        together = processor(scores_for(len(prompts)), History.of(prompts))
        for row, prompt in enumerate(prompts):
            alone = processor(scores_for(len(prompts))[row : row + 1], History.of([prompt]))
            assert torch.equal(together[row : row + 1], alone)


def test_a_prefix_stands_above_the_other_laws() -> None:
    processor = ForcedPrefix([[2, 2], []], [Forbidden([[2]])])
    history = History.of([[], []])
    changed = processor(scores_for(2), history)
    assert changed[0].isfinite().nonzero().flatten().tolist() == [2]
    assert changed[0, 2] == scores_for(2)[0, 2]
    assert changed[1].isfinite().nonzero().flatten().tolist() == [0, 1, 3, 4, 5, 6]
    rows = torch.tensor([1, 1, 0])  # beams are born and move: each row knows its sequence
    changed = processor(scores_for(3), history.then(rows, torch.tensor([4, 5, 2])))
    assert [row.isfinite().sum().item() for row in changed] == [V - 1, V - 1, 1]
    assert History.of([[]]).then(torch.tensor([0]), torch.tensor([6])).ids.tolist() == [[6]]


@pytest.mark.parametrize(
    "processor", [Forbidden([[1, V]]), ForcedPrefix([[V]], []), MinLength(1, V)], ids=["forbidden", "prefix", "end"]
)
def test_tokens_outside_the_vocabulary_are_named(processor: Any) -> None:
    with pytest.raises(UsageError, match=rf"token {V}, but the vocabulary ends at {V - 1}"):
        processor(scores_for(1), History.of([[]]))
