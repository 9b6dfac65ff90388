"""Sequences that join and leave at any step get the tokens that they get alone."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import torch

from qkv.common.batch import Tokens
from qkv.compression.engine import accelerate
from qkv.decoding import continuous
from qkv.decoding.config import DecodingConfig
from qkv.decoding.continuous import ContinuousSearch, Row
from qkv.decoding.generate import generate
from qkv.predict import Model
from tests.predict.writers import writer

CONFIGS = {
    "greedy": DecodingConfig(),
    "sampled": DecodingConfig(sample=True, temperature=1.3, top_k=40, top_p=0.95),
    "constrained": DecodingConfig(repetition_penalty=1.4, no_repeat_ngram=2, forbidden=((7,), (3, 5))),
}


@pytest.fixture(scope="module", params=["torch", "engine"])
def model(request: pytest.FixtureRequest) -> Model:
    found = writer("char", max_length=64)
    if request.param == "engine":
        accelerate(found.module)
        if found.module.decodings is None:
            pytest.skip("this machine has no CPU engine")
    return found


def search_of(model: Model, config: DecodingConfig, end_id: int) -> ContinuousSearch:
    module: Any = model.module
    return ContinuousSearch(
        lambda prompts: module.start(Tokens.of(prompts)),
        lambda stepper, prompts: stepper.join(Tokens.of(prompts)),
        config,
        end_id,
    )


def alone(model: Model, prompt: list[int], limit: int, seed: int, config: DecodingConfig, end_id: int) -> Any:
    module: Any = model.module
    stepper = module.start(Tokens.of([prompt]))
    (found,) = generate(
        stepper,
        stepper.first,
        end_id=end_id,
        max_lengths=[limit],
        config=config,
        prompts=[prompt],
        seeds=[seed],
    )
    return found[0]


@pytest.mark.parametrize("few", [continuous.FEW, 20])
@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_are_those_of_a_search_alone(model: Model, name: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "FEW", few)  # with 20, the search often begins again with what is left
    config, dice = CONFIGS[name], random.Random(few)
    vocabulary = model.config.vocab_size
    said = [token for start in range(8) for token in alone(model, [start + 4], 30, start, config, -1).ids]
    end_id = Counter(said).most_common(3)[-1][0]  # a token that comes up, so that some sequences end with it
    search = search_of(model, config, end_id)
    rows: list[tuple[Row, list[int], int, int]] = []
    for number in range(14):
        prompt = [dice.randrange(vocabulary) for _ in range(dice.choice([1, 2, 9, 20]))]
        limit = dice.randrange(1, 30)
        row = Row(prompt, limit, number)
        rows.append((row, prompt, limit, number))
        search.add([row])
        for _ in range(dice.randrange(5)):
            search.step()
    while search.rows:
        search.step()
    ended = 0
    for row, prompt, limit, seed in rows:
        found, wanted = row.hypothesis(), alone(model, prompt, limit, seed, config, end_id)
        assert (found.ids, found.ended) == (wanted.ids, wanted.ended)
        torch.testing.assert_close(found.scores, wanted.scores, atol=1e-4, rtol=1e-4)
        ended += found.ended
    assert 0 < ended < len(rows)


def test_rows_that_join_together_and_rows_without_room(model: Model) -> None:
    search = search_of(model, DecodingConfig(), -1)
    assert search.step() == []
    empty, rows = Row([5], 0, 0), [Row([5, 6, 7], 4, 0), Row([9], 6, 0)]
    search.add([empty, *rows])
    for _ in range(2):
        search.step()
    more = [Row([8, 8], 3, 0), Row([5, 6, 7, 9, 11], 5, 0)]
    search.add(more)
    while search.rows:
        search.step()
    assert empty.answer.ids == []
    for row, limit in zip([*rows, *more], [4, 6, 3, 5], strict=True):
        assert row.answer.ids == alone(model, row.prompt, limit, 0, DecodingConfig(), -1).ids
