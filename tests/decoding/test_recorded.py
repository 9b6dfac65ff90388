"""Searches of fixed shapes say what the ordinary ones say; here without recording, on the GPU with it (tests/gpu)."""

from __future__ import annotations

import pytest
import torch

from qkv.common.batch import Tokens
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.recorded import recorded_search
from qkv.decoding.rules import BeamRules, StopCondition
from qkv.models import catalogue
from qkv.models.fixed_steppers import FixedPrompts, FixedSources
from tests.contracts.entries import make, shrink

SOURCES = [[5, 6, 7, 8, 9], [11, 3], [4, 4, 9, 20, 21, 22, 23], [8]]
LIMITS = [9, 4, 12, 1]
CONFIGS = [
    DecodingConfig(),
    DecodingConfig(beam=3, nbest=2),
    DecodingConfig(beam=4, nbest=4, length_penalty=0.0),
    DecodingConfig(beam=2, length_penalty=-0.5),
    DecodingConfig(beam=5, length_penalty=2.0),
]


def rules(config: DecodingConfig, end_id: int) -> BeamRules:
    return BeamRules(config, StopCondition(end_id))


def same(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in several] for several in found] == [[h.ids for h in several] for several in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert a.ended == b.ended
            assert a.score == pytest.approx(b.score, abs=1e-4)
            assert a.scores == pytest.approx(b.scores, abs=1e-4)


def sharpened(preset: str) -> torch.nn.Module:
    """A random model whose scores differ enough that no two hypotheses tie."""
    torch.manual_seed(1)
    model = make(shrink(catalogue.preset(preset)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    return model


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("end_id", [2, 17, -1])
@torch.inference_mode()
def test_encoder_decoder(config: DecodingConfig, end_id: int) -> None:
    model = sharpened("transformer-base")
    first = torch.zeros(len(SOURCES), dtype=torch.int64)
    wanted = generate(model.start(Tokens.of(SOURCES)), first, end_id=end_id, max_lengths=LIMITS, config=config)
    memory = model.encode(Tokens.of(SOURCES))
    stepper = FixedSources(model, config.beam, 12, memory)
    stepper.load(memory)
    for _ in range(2):  # the state of one batch is none of the next one's
        found = recorded_search(stepper, first, limits=LIMITS, longest=12, rules=rules(config, end_id))
        same(found, wanted)


@pytest.mark.parametrize("config", CONFIGS[:3], ids=str)
@torch.inference_mode()
def test_prompts(config: DecodingConfig) -> None:
    model = sharpened("gpt2")
    start = model.start(Tokens.of(SOURCES))
    first = start.first
    stepper = FixedPrompts(model, len(SOURCES), config.beam, 24, torch.device("cpu"))
    stepper.load(start.cache)
    wanted = generate(start, first, end_id=17, max_lengths=LIMITS, config=config)
    same(recorded_search(stepper, first, limits=LIMITS, longest=12, rules=rules(config, 17)), wanted)


@torch.inference_mode()
def test_a_row_that_is_over_does_not_run_past_the_last_position() -> None:
    torch.manual_seed(1)
    model = make(shrink(catalogue.preset("gpt2", max_length=24)))
    prompts, limits, config = Tokens.of([[5], list(range(3, 23))]), [20, 3], DecodingConfig()
    ready = model.start(prompts)
    wanted = generate(ready, ready.first, end_id=-1, max_lengths=limits, config=config)
    ready = model.start(prompts)
    stepper = FixedPrompts(model, 2, 1, 24, torch.device("cpu"))
    stepper.load(ready.cache)
    same(recorded_search(stepper, ready.first, limits=limits, longest=24, rules=rules(config, -1)), wanted)
