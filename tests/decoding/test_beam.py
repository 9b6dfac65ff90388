"""Beam search on models small enough to enumerate."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.decoding.beam import beam_search
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.logits_processors import History
from qkv.decoding.rules import BeamRules, StopCondition
from qkv.decoding.topk import topk
from tests.decoding.toys import END, Toy, every_hypothesis

FIRST = 2
ALPHAS = [-1.0, 0.0, 0.6, 1.0, 2.0]


def run(toy: Toy, limits: list[int], **numbers: object) -> list[list[Hypothesis]]:
    config = DecodingConfig(**numbers)  # type: ignore[arg-type]
    return generate(toy, torch.full((len(limits),), FIRST), end_id=END, max_lengths=limits, config=config)


def alike(found: list[Hypothesis], wanted: list[Hypothesis]) -> None:
    assert [(one.ids, one.ended) for one in found] == [(one.ids, one.ended) for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.scores == pytest.approx(other.scores, abs=1e-5)


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 4), st.sampled_from(ALPHAS))
def test_a_beam_as_wide_as_everything_finds_the_best(source: int, vocab: int, limit: int, alpha: float) -> None:
    toy = Toy([source], vocab)
    found = run(toy, [limit], beam=vocab**limit, nbest=2, length_penalty=alpha)[0]
    alike(found, every_hypothesis(toy, source, FIRST, limit, alpha)[:2])


@pytest.mark.parametrize("alpha", ALPHAS)
def test_wider_beams_come_nearer_to_the_best(alpha: float) -> None:
    """No beam beats the exhaustive best, and over many sources a wider one is better; the widest is best itself."""
    sources, limit, widths = list(range(40)), 4, [2, 4, 81]
    means = []
    for beam in widths:
        found = run(Toy(sources, 3), [limit] * 40, beam=beam, length_penalty=alpha)
        tops = [every_hypothesis(Toy([0], 3), source, FIRST, limit, alpha)[0].score for source in sources]
        assert all(one[0].score <= top + 1e-5 for one, top in zip(found, tops, strict=True))
        means.append(sum(one[0].score for one in found))
    assert means[0] < means[1] <= means[2] == pytest.approx(sum(tops), abs=1e-3)


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=4, unique=True),
    st.integers(1, 6),
    st.sampled_from([-1.0, 0.0]),
)
def test_a_beam_of_one_is_greedy(sources: list[int], limit: int, alpha: float) -> None:
    """A positive α can prefer going on although the end is the best token, and is then not greedy."""
    config = DecodingConfig(length_penalty=alpha)
    limits = [limit] * len(sources)
    first, history = torch.full((len(sources),), FIRST), History.of([[]] * len(sources))
    rules = BeamRules(config, StopCondition(END))
    found = beam_search(Toy(sources, 6), first, limits=limits, processors=[], history=history, rules=rules)
    wanted = [one[0] for one in run(Toy(sources, 6), limits)]
    assert [one[0].ids for one in found] == [one.ids for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one[0].scores == pytest.approx(other.scores, abs=1e-5)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("sharp", [0.5, 3.0])
def test_stopping_early_loses_nothing(alpha: float, sharp: float) -> None:
    """The bound against never stopping: the same n best of 60 sources, and never more tokens read."""
    limits = [number % 8 for number in range(60)]
    early, patient = Toy(range(60), 5, sharp=sharp), Toy(range(60), 5, sharp=sharp)
    found = run(early, limits, beam=3, nbest=2, length_penalty=alpha)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BeamRules, "over", lambda _, best, worst, length, limit: length >= limit or best == -math.inf)
        wanted = run(patient, limits, beam=3, nbest=2, length_penalty=alpha)
    for one, other in zip(found, wanted, strict=True):
        alike(one, other)
    assert early.read < patient.read or (alpha > 0 and early.read == patient.read)


def test_stopping_early_saves_steps() -> None:
    early, sources = Toy(range(20), 5, sharp=3), range(20)
    run(early, [30] * 20, beam=4, length_penalty=0.0)
    assert early.read < len(sources) * 4 * 30 / 2


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=4), st.integers(2, 4))
def test_a_batch_finds_what_each_finds_alone(sources: list[int], beam: int) -> None:
    limits = [3 + number for number in range(len(sources))]
    together = run(Toy(sources, 6, sharp=3), limits, beam=beam, nbest=beam)
    for source, limit, found in zip(sources, limits, together, strict=True):
        alike(found, run(Toy([source], 6, sharp=3), [limit], beam=beam, nbest=beam)[0])


def test_hypotheses_differ_and_fall() -> None:
    for found in run(Toy(range(6), 6), [5] * 6, beam=5, nbest=5):
        assert len({(tuple(one.ids), one.ended) for one in found}) == 5
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)


def test_a_beam_with_nothing_left_to_say_returns_what_it_has() -> None:
    """Every token is forbidden once it was said, and the end always: after four words nothing is left."""
    found = run(Toy([1, 2], 5), [9, 9], beam=3, nbest=2, no_repeat_ngram=1, forbidden=((END,),))
    for several in found:
        assert all(sorted(one.ids) == [1, 2, 3, 4] and not one.ended for one in several)
    nothing = run(Toy([1], 3), [4], beam=2, forbidden=((0,), (1,), (2,)))
    assert nothing == [[Hypothesis([], [], 0.0, ended=False)]]


@given(st.integers(1, 9), st.integers(64, 3000), st.integers(0, 99))
def test_best_is_topk(k: int, vocab: int, seed: int) -> None:
    scores = torch.randn(3, vocab, generator=torch.Generator().manual_seed(seed))
    scores[1] = -torch.inf
    scores[1, 5], scores[1, -1] = 2.0, 1.0
    values, ids = topk(scores, k)
    assert torch.equal(values, scores.topk(k).values)
    assert torch.equal(scores.gather(1, ids), values)
    assert all(len(set(row)) == k for row in ids.tolist())


def test_a_hypothesis_is_plain_data() -> None:
    found = run(Toy([3], 4), [3], beam=2)[0][0]
    assert dataclasses.asdict(found).keys() == {"ids", "scores", "score", "ended"}
