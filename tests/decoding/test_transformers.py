"""Greedy and beam search against `transformers`' generate, token for token, on folders that qkv wrote."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf

from qkv.common.batch import Tokens
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.decoding.hypothesis import Hypothesis
from tests.parity.test_hf import GPT2, MARIAN, PEGASUS, T5, Case, sequences, there_and_back

LIMIT = 10
CASES = [
    Case(hf.MarianMTModel, hf.MarianConfig, MARIAN),
    # With narrow layers, a random pre-norm model repeats its first token.
    Case(hf.PegasusForConditionalGeneration, hf.PegasusConfig, PEGASUS | {"decoder_ffn_dim": 256}),
    Case(hf.T5ForConditionalGeneration, hf.T5Config, T5 | {"num_decoder_layers": 2}),
    Case(hf.GPT2LMHeadModel, hf.GPT2Config, GPT2),
]


class Both:
    """One model, as theirs and as ours, and a token that is said often enough to be the end."""

    def __init__(self, case: Case, folder: Any) -> None:
        _, ours, self.theirs = there_and_back(case, folder)
        self.module: Any = ours.module
        self.causal = case.model is hf.GPT2LMHeadModel
        self.ids = sequences()[:3]
        self.end = 1
        said = [token for found in self.ours() for token in found[0].ids[2:]]
        self.end = max(set(said), key=lambda token: (said.count(token), token))

    def ours(self, ids: list[list[int]] | None = None, **numbers: Any) -> list[list[Hypothesis]]:
        ids = ids or self.ids
        stepper = self.module.start(Tokens.of(ids))
        first = stepper.first if self.causal else torch.zeros(len(ids), dtype=torch.int64)
        # They count the token that starts a target as said.
        return generate(
            stepper,
            first,
            end_id=self.end,
            max_lengths=[LIMIT] * len(ids),
            config=DecodingConfig(**numbers),
            prompts=ids if self.causal else [[0]] * len(ids),
        )

    def their(self, ids: list[int], **numbers: Any) -> list[tuple[list[int], bool, float | None]]:
        options = {
            "max_new_tokens": LIMIT, "do_sample": False, "eos_token_id": self.end, "pad_token_id": 0,
            "forced_eos_token_id": None, "return_dict_in_generate": True, "output_scores": True,
        }  # fmt: skip
        options |= {"num_beams": 1, "early_stopping": False, **numbers}
        found = self.theirs.generate(input_ids=torch.tensor([ids]), **options)
        skip = len(ids) if self.causal else 1
        scores = found.sequences_scores.tolist() if "sequences_scores" in found else [None] * len(found.sequences)
        texts = [row[skip:] for row in found.sequences.tolist()]
        return [
            (row[: row.index(self.end)] if self.end in row else row, self.end in row, score)
            for row, score in zip(texts, scores, strict=True)
        ]

    def agree(self, mine: dict[str, Any], theirs: dict[str, Any]) -> list[list[Hypothesis]]:
        found = self.ours(**mine)
        for ids, several in zip(self.ids, found, strict=True):
            wanted = self.their(ids, **theirs)
            assert [(one.ids, one.ended) for one in several] == [(row, ended) for row, ended, _ in wanted]
            for one, (_, _, score) in zip(several, wanted, strict=True):
                assert score is None or one.score == pytest.approx(score, abs=1e-4)
        return found


@pytest.fixture(scope="module", params=CASES, ids=["marian", "pegasus", "t5", "gpt2"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(request.param, tmp_path_factory.mktemp("both"))


def test_greedy(both: Both) -> None:
    found = both.agree({}, {})
    assert any(one[0].ended for one in found)
    assert len({len(one[0].ids) for one in found}) > 1


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 1.0])
def test_beam(both: Both, alpha: float) -> None:
    """Their early_stopping=False guesses by the length so far, which a positive α can outgrow; "never" is a bound."""
    both.agree(
        {"beam": 4, "nbest": 3, "length_penalty": alpha},
        {"num_beams": 4, "num_return_sequences": 3, "length_penalty": alpha, "early_stopping": "never"},
    )


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"repetition_penalty": 1.8}, {"repetition_penalty": 1.8}),
        ({"no_repeat_ngram": 2}, {"no_repeat_ngram_size": 2}),
        ({"min_length": 6, "length_penalty": 0.0}, {"min_new_tokens": 6, "length_penalty": 0.0}),
        ({"forbidden": ((5,), (7, 9))}, {"bad_words_ids": [[5], [7, 9]]}),
    ],
    ids=["penalty", "n-grams", "minimum", "forbidden"],
)
@pytest.mark.parametrize("beam", [1, 3])
def test_laws(both: Both, beam: int, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    plain = both.ours(beam=beam, length_penalty=mine.get("length_penalty", 1.0))
    if "forbidden" in mine:  # forbid what would be said
        ids = next(one[0].ids for one in plain if len(one[0].ids) > 2)
        mine, theirs = {"forbidden": ((ids[0],), (ids[1], ids[2]))}, {"bad_words_ids": [[ids[0]], [ids[1], ids[2]]]}
    never = {"early_stopping": "never"} if beam > 1 else {}
    found = both.agree({"beam": beam, **mine}, {"num_beams": beam, **never, **theirs})
    assert [one[0].ids for one in found] != [one[0].ids for one in plain]
