"""Laws of every search, on every family that can decode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from qkv.common.batch import Pairs, Tokens
from qkv.common.errors import UsageError
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.samplers import RandomSampler
from tests.contracts.entries import MODELS, make, sequences
from tests.decoding.toys import Toy

FAMILIES = ["transformer-tiny", "transformer-pre", "t5-small", "rnn-small", "rnn-gru", "gpt2", "gpt-grouped"]
END, LIMIT = 1, 7
SEARCHES = {
    "greedy": {},
    "beam": {"beam": 3, "nbest": 2},
    "beam-processors": {"beam": 3, "no_repeat_ngram": 2, "min_length": 4, "forbidden": ((3,), (5, 6))},
    "greedy-processors": {"repetition_penalty": 1.5, "min_length": 3},
    "sample": {"sample": True, "temperature": 1.5, "top_k": 20, "top_p": 0.95, "nbest": 2},
}


def causal(name: str) -> bool:
    return name.startswith("gpt")


def begin(name: str, module: Any, ids: list[list[int]]) -> tuple[Any, torch.Tensor]:
    stepper = module.start(Tokens.of(ids))
    return stepper, stepper.first if causal(name) else torch.zeros(len(ids), dtype=torch.int64)


def run(name: str, module: Any, ids: list[list[int]], **options: Any) -> list[list[Hypothesis]]:
    stepper, first = begin(name, module, ids)
    given = {"end_id": END, "max_lengths": [LIMIT] * len(ids), "prompts": ids if causal(name) else None}
    return generate(stepper, first, **given | options)


class Uncached:
    """A stepper that reads everything again at each step: the plainest there is."""

    device = torch.device("cpu")

    def __init__(self, name: str, module: Any, ids: list[list[int]]) -> None:
        self.module, self.causal = module, causal(name)
        self.sources = ids
        self.said: list[list[int]] = [s[:-1] if self.causal else [] for s in ids]

    def step(self, ids: torch.Tensor) -> torch.Tensor:
        self.said = [[*said, token] for said, token in zip(self.said, ids.tolist(), strict=True)]
        return torch.stack(
            [forced(self.module, self.causal, *pair)[-1] for pair in zip(self.sources, self.said, strict=True)]
        )

    def best(self, ids: torch.Tensor, count: int) -> None:
        del ids, count

    def fixed(self, beams: int, longest: int) -> None:
        del beams, longest

    def reorder(self, rows: torch.Tensor) -> None:
        self.sources = [self.sources[row] for row in rows.tolist()]
        self.said = [self.said[row] for row in rows.tolist()]


@torch.no_grad()
def forced(module: Any, is_causal: bool, source: list[int], said: list[int]) -> torch.Tensor:
    """Scores of a whole pass, no cache. Shape: [len(said), V]."""
    target = Tokens.of([said])
    return module.logits(module(target if is_causal else Pairs(Tokens.of([source]), target)), "lm")


def alike(found: Sequence[Sequence[Hypothesis]], wanted: Sequence[Sequence[Hypothesis]]) -> None:
    for several, others in zip(found, wanted, strict=True):
        assert [(one.ids, one.ended) for one in several] == [(one.ids, one.ended) for one in others]
        for one, other in zip(several, others, strict=True):
            assert one.scores == pytest.approx(other.scores, abs=1e-4)
            assert one.score == pytest.approx(other.score, abs=1e-4)


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> tuple[str, Any]:
    return request.param, make(MODELS[request.param])


@pytest.mark.parametrize("search", SEARCHES)
def test_a_batch_says_what_each_says_alone(model: tuple[str, Any], search: str) -> None:
    name, module = model
    ids, config, seeds = sequences([5, 1, 12]), DecodingConfig(**SEARCHES[search]), [4, 5, 9]
    limits = [LIMIT, 4, 6]
    together = run(name, module, ids, config=config, seeds=seeds, max_lengths=limits)
    alone = [
        run(name, module, [one], config=config, seeds=[seed], max_lengths=[limit])[0]
        for one, seed, limit in zip(ids, seeds, limits, strict=True)
    ]
    alike(together, alone)


@pytest.mark.parametrize("search", SEARCHES)
def test_cached_is_uncached_and_scores_are_the_models(model: tuple[str, Any], search: str) -> None:
    name, module = model
    ids, config = sequences([3, 9]), DecodingConfig(**SEARCHES[search])
    found = run(name, module, ids, config=config)
    _, first = begin(name, module, ids)
    given: dict[str, Any] = {"end_id": END, "max_lengths": [LIMIT] * 2, "prompts": ids if causal(name) else None}
    alike(found, generate(Uncached(name, module, ids), first, config=config, **given))
    for source, several in zip(ids, found, strict=True):
        for one in several:
            said = [*one.ids, END] if one.ended else one.ids
            before = source if causal(name) else [0]
            table = forced(module, causal(name), source, [*before, *said][:-1]).log_softmax(-1)[-len(said) :]
            assert one.scores == pytest.approx(
                [row[token].item() for row, token in zip(table, said, strict=True)], abs=1e-4
            )
            if "repetition_penalty" not in SEARCHES[search]:
                power = config.length_penalty if config.beam > 1 else 0.0
                assert one.score == pytest.approx(sum(one.scores) / len(said) ** power, abs=1e-4)


@pytest.mark.parametrize("name", ["transformer-tiny", "gpt2"])
@pytest.mark.parametrize("numbers", [{}, {"beam": 3}, {"sample": True}], ids=["greedy", "beam", "sample"])
def test_a_prefix_is_kept_and_scored(name: str, numbers: dict[str, Any]) -> None:
    module, ids = make(MODELS[name]), sequences([4, 6, 3])
    prefixes = [[7, 7, 2], [], [11]]
    processors = {"no_repeat_ngram": 1, "forbidden": ((11,),)}
    found = run(name, module, ids, config=DecodingConfig(**numbers, **processors), prefixes=prefixes)
    for source, prefix, (one,) in zip(ids, prefixes, found, strict=True):
        assert one.ids[: len(prefix)] == prefix
        assert 11 not in one.ids[len(prefix) :]
        said = [*one.ids, END] if one.ended else one.ids
        before = source if causal(name) else [0]
        table = forced(module, causal(name), source, [*before, *said][:-1]).log_softmax(-1)[-len(said) :]
        assert one.scores == pytest.approx(
            [row[token].item() for row, token in zip(table, said, strict=True)], abs=1e-4
        )


@pytest.mark.parametrize("numbers", [{}, {"sample": True, "seed": 3}], ids=["greedy", "sample"])
def test_tokens_come_as_they_are_said(numbers: dict[str, Any]) -> None:
    heard: list[list[tuple[int, int]]] = []
    toy = Toy(range(5), 4)
    first, limits = torch.zeros(5, dtype=torch.int64), [6, 0, 3, 6, 9]
    found = generate(
        toy, first, end_id=END, max_lengths=limits, config=DecodingConfig(**numbers), on_tokens=heard.append
    )
    said = [[token for step in heard for number, token in step if number == b] for b in range(5)]
    assert said == [one[0].ids for one in found]
    assert all(len({number for number, _ in step}) == len(step) for step in heard)
    assert toy.read == sum(len(one[0].scores) for one in found), "who is finished is not asked again"


def test_draws_follow_the_probabilities_and_the_seed() -> None:
    toy, draws = Toy([3], 5), 4000
    config = DecodingConfig(sample=True, nbest=draws, temperature=0.8)
    first = torch.tensor([2])
    found = generate(toy, first, end_id=-1, max_lengths=[1], config=config)[0]
    counts = torch.bincount(torch.tensor([one.ids[0] for one in found]), minlength=5) / draws
    wanted = (Toy([3], 5).scores((3, 2)) / 0.8).softmax(-1)
    assert (counts - wanted).abs().max() < 0.03
    again = generate(Toy([3], 5), first, end_id=-1, max_lengths=[1], config=config)[0]
    assert again == found
    other = generate(
        Toy([3], 5), first, end_id=-1, max_lengths=[1], config=DecodingConfig(sample=True, seed=1, nbest=draws)
    )
    assert other[0] != found


def test_what_is_forbidden_is_never_drawn() -> None:
    """Not even by the smallest and the largest number that can be drawn."""
    sample, inf = RandomSampler([0, 1], [1, 1]), torch.inf
    sample.drawn = torch.tensor([[0.0], [1 - 2**-53]], dtype=torch.float64)
    scores = torch.tensor([[-inf, 0.0, 0.3, -inf]] * 2)
    assert sample(scores, [0, 1], 0).tolist() == [1, 2]
    assert sample(scores, [1, 0], 0).tolist() == [2, 1]


def test_only_the_best_is_left_to_draw() -> None:
    toys, first = [Toy(range(6), 9) for _ in range(4)], torch.ones(6, dtype=torch.int64)
    configs = [{}, {"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}]
    found = [
        generate(toy, first, end_id=END, max_lengths=[5] * 6, config=DecodingConfig(sample=bool(numbers), **numbers))
        for toy, numbers in zip(toys, configs, strict=True)
    ]
    assert found[1] == found[2] == found[3] == found[0]


def test_a_sequence_with_nothing_left_to_say_stops() -> None:
    for numbers in ({}, {"sample": True}):
        config = DecodingConfig(no_repeat_ngram=1, forbidden=((END,),), **numbers)
        found = generate(
            Toy([1, 2], 4), torch.zeros(2, dtype=torch.int64), end_id=END, max_lengths=[9, 2], config=config
        )
        assert sorted(found[0][0].ids) == [0, 2, 3]
        assert len(found[0][0].scores) == 3
        assert [len(one[0].ids) for one in found] == [3, 2]
        assert not found[0][0].ended


def test_the_config_caps_every_length() -> None:
    first = torch.zeros(2, dtype=torch.int64)
    for numbers in ({}, {"beam": 2}, {"sample": True}):
        found = generate(
            Toy([1, 2], 9), first, end_id=-1, max_lengths=[8, 1], config=DecodingConfig(max_length=3, **numbers)
        )
        assert [len(one[0].ids) for one in found] == [3, 1]
        assert generate(Toy([], 9), first[:0], end_id=1, max_lengths=[], config=DecodingConfig(**numbers)) == []


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"beam": 0}, "beam must be at least 1, got 0"),
        ({"nbest": 3, "beam": 2}, "nbest 3 is more than the beam of 2"),
        ({"temperature": 0.0, "sample": True}, "temperature must be greater than 0, got 0.0"),
        ({"temperature": 0.5}, "temperature changes nothing without sample"),
        ({"top_p": 0.0, "sample": True}, "top_p must be greater than 0 and at most 1, got 0.0"),
        ({"top_p": 1.1, "sample": True}, "top_p must be greater than 0 and at most 1, got 1.1"),
        ({"min_p": -0.1, "sample": True}, "min_p must be from 0 to 1, got -0.1"),
        ({"top_k": -1, "sample": True}, "top_k must be at least 0, got -1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be greater than 0"),
        ({"length_penalty": float("nan")}, "length_penalty must be a finite number"),
        ({"min_length": 5, "max_length": 4}, "min_length 5 is more than max_length 4"),
        ({"forbidden": ((),)}, "a forbidden word must have at least one token id"),
        ({"sample": True, "beam": 2}, "a beam does not sample"),
    ],
)
def test_bad_numbers_are_named(numbers: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DecodingConfig(**numbers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_lengths": [3]}, "2 sequences and 1 max_lengths"),
        ({"prefixes": [[1]]}, "2 sequences and 1 prefixes"),
        ({"prefixes": [[1], [2] * 9]}, "prefix 1 has 9 tokens, more than the max_length of 4"),
        ({"prefixes": [[], [2, -1]]}, "prefix 1 holds token -1"),
        ({"prefixes": [[], [2, 4]]}, "a forced prefix holds token 4, but the vocabulary ends at 3"),
        ({"config": DecodingConfig(beam=2), "on_tokens": print}, "streamed only with beam 1"),
    ],
)
def test_bad_requests_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        generate(Toy([1, 2], 4), torch.zeros(2, dtype=torch.int64), **{"end_id": END, "max_lengths": [4, 4]} | options)


def test_models_that_cannot_go_on_say_so() -> None:
    with pytest.raises(UsageError, match="unknown head 'lm'"):
        make(MODELS["bert"]).start(Tokens.of([[1, 2]]))  # type: ignore[operator]
