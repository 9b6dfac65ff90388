"""Greedy decoding against `transformers`' generate, and its own processors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf

import qkv
from qkv.common.batch import Tokens
from qkv.decoding.generate import generate
from tests.contracts.entries import MODELS, make, sequences
from tests.parity.test_hf import MARIAN, T5, Case, theirs
from tests.parity.test_hf import sequences as sources

LIMIT = 12


def decode(module: Any, ids: list[list[int]], limits: list[int] | None = None) -> list[list[int]]:
    first = torch.zeros(len(ids), dtype=torch.int64)
    found = generate(module.start(Tokens.of(ids)), first, end_id=1, max_lengths=limits or [LIMIT] * len(ids))
    return [hypotheses[0].ids for hypotheses in found]


@pytest.mark.parametrize(
    "case",
    [
        Case(hf.MarianMTModel, hf.MarianConfig, MARIAN),
        Case(hf.T5ForConditionalGeneration, hf.T5Config, T5 | {"num_decoder_layers": 2}),
    ],
    ids=lambda case: case.name,
)
def test_greedy_says_what_transformers_says(case: Case, tmp_path: Any) -> None:
    model = theirs(case)
    model.save_pretrained(tmp_path)
    ours = qkv.load(tmp_path, device="cpu").module
    expected = []
    for ids in sources():
        found = model.generate(
            input_ids=torch.tensor([ids]), num_beams=1, do_sample=False, max_new_tokens=LIMIT, forced_eos_token_id=None
        )[0].tolist()[1:]
        expected.append(found[: found.index(1)] if 1 in found else found)
    assert decode(ours, sources()) == expected


@pytest.mark.parametrize("name", ["transformer-tiny", "t5-small", "rnn-small", "rnn-gru"])
def test_a_batch_says_what_each_says_alone(name: str) -> None:
    module: Any = make(MODELS[name])
    ids = sequences([5, 1, 12, 7])
    assert decode(module, ids) == [decode(module, [one])[0] for one in ids]


@pytest.mark.parametrize("name", ["transformer-tiny", "rnn-small"])
def test_each_token_is_the_best_after_those_before(name: str) -> None:
    """Teacher forcing the answer gives the answer."""
    from qkv.common.batch import Pairs

    module: Any = make(MODELS[name])
    ids = sequences([6])
    answer = decode(module, ids)[0]
    with torch.no_grad():
        hidden = module(Pairs(Tokens.of(ids), Tokens.of([[0, *answer]])))
        best = module.logits(hidden, "lm").argmax(-1).tolist()
    assert best[: len(answer)] == answer


def test_lengths_are_kept() -> None:
    module: Any = make(MODELS["transformer-tiny"])
    found = decode(module, sequences([5, 5, 5]), [0, 2, 7])
    assert [len(one) <= most for one, most in zip(found, [0, 2, 7], strict=True)] == [True] * 3
    assert found[0] == []
