"""Searches of fixed shapes say what the ordinary ones say; here without recording, on the GPU with it (tests/gpu)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from qkv.common.batch import Tokens
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate, processors_of
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.recorded import LOOK, Beams, Greedy, Sampled, recorded_search
from qkv.decoding.rules import BeamRules, StopCondition
from qkv.models import catalogue
from qkv.models.fixed_steppers import FixedPrompts, FixedSources
from qkv.nn import kernels
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
SAMPLED = [
    DecodingConfig(sample=True),
    DecodingConfig(sample=True, temperature=1.5, top_k=12, nbest=3, seed=9),
    DecodingConfig(sample=True, top_p=0.7, min_p=0.05, seed=2),
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


class Ordinary:
    """A stepper that offers no fixed shapes."""

    def __init__(self, stepper: Any) -> None:
        self.stepper, self.device = stepper, stepper.device
        self.step, self.best, self.reorder = stepper.step, stepper.best, stepper.reorder

    def fixed(self, beams: int, longest: int) -> None:
        del beams, longest


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The searches that are recorded on CUDA take the same steps here, without the recording."""
    monkeypatch.setattr(kernels, "recordable", lambda *_, **__: True)


def searched(
    model: Any, config: DecodingConfig, end_id: int, *, ordinary: bool = False, **more: Any
) -> list[list[Hypothesis]]:
    ready = model.start(Tokens.of(SOURCES))
    first = getattr(ready, "first", torch.zeros(len(SOURCES), dtype=torch.int64))
    more = {"max_lengths": LIMITS, "seeds": [7, 5, 7, 9]} | more
    return generate(Ordinary(ready) if ordinary else ready, first, end_id=end_id, config=config, **more)


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("preset", ["gpt2", "transformer-base"])
@pytest.mark.parametrize("config", SAMPLED, ids=str)
@pytest.mark.parametrize("end_id", [17, -1])
@torch.inference_mode()
def test_samples_are_those_of_the_ordinary_search(preset: str, config: DecodingConfig, end_id: int) -> None:
    model: Any = sharpened(preset)
    wanted = searched(model, config, end_id, ordinary=True)
    assert len({tuple(h.ids) for several in wanted for h in several}) > 3
    for _ in range(2):  # the random numbers of one batch are none of the next one's
        same(searched(model, config, end_id), wanted)
    assert len(model.steppers) == 1


@pytest.mark.usefixtures("recorded")
@torch.inference_mode()
def test_each_search_has_its_own_recording_and_the_oldest_go() -> None:
    model: Any = sharpened("gpt2")
    for number in range(12):
        config = DecodingConfig(sample=True, temperature=1.0 + number / 4)
        same(searched(model, config, 17), searched(model, config, 17, ordinary=True))
    assert len(model.steppers) == 1
    assert len(next(iter(model.steppers._held.values())).kept) == 8


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("numbers", [{}, {"sample": True, "temperature": 1.3}], ids=["greedy", "sampled"])
@pytest.mark.parametrize("stop", [1, 2, LOOK, LOOK + 1, 99])
@torch.inference_mode()
def test_who_listens_hears_each_token_once_and_can_stop_a_row(numbers: dict[str, Any], stop: int) -> None:
    """Row 2 is stopped after `stop` of its tokens; the others go on to the end token or their limits."""
    model: Any = sharpened("gpt2")
    config, limits = DecodingConfig(**numbers), [15, 4, 17, 1]
    free = searched(model, config, -1, ordinary=True, max_lengths=limits)
    end_id = free[0][0].ids[10]

    def told(ordinary: bool) -> tuple[list[list[Hypothesis]], list[list[int]]]:
        heard: list[list[int]] = [[] for _ in SOURCES]

        def hear(pairs: list[tuple[int, int]]) -> list[int]:
            for row, token in pairs:
                heard[row].append(token)
            return [row for row, _ in pairs if row == 2 and len(heard[row]) == stop]

        given = {"max_lengths": limits, "on_tokens": hear}
        return searched(model, config, end_id, ordinary=ordinary, **given), heard

    (found, heard), (wanted, _) = told(False), told(True)
    same(found, wanted)
    assert heard == [one.ids for (one,) in found]
    assert len(found[2][0].ids) <= stop
    same(searched(model, config, end_id, max_lengths=limits), searched(model, config, end_id, ordinary=True,
                                                                       max_lengths=limits))  # fmt: skip


@pytest.mark.parametrize("preset", ["gpt2", "transformer-base"])
@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[1], *SAMPLED], ids=str)
@torch.inference_mode()
def test_a_step_asks_the_host_for_nothing(preset: str, config: DecodingConfig) -> None:
    """A graph is recorded without running, so no step may read a number of the device. Nor can fake tensors be read."""
    model: Any = sharpened(preset)
    ready, rows = model.start(Tokens.of(SOURCES)), max(config.beam, config.nbest)
    if preset == "gpt2":
        stepper: Any = FixedPrompts(model, len(SOURCES), rows, 24, torch.device("cpu"))
        stepper.load(ready.cache)
    else:
        stepper = FixedSources(model, rows, 12, ready.memory)
        stepper.load(ready.memory)
        for module in model.modules():  # on CUDA, fused attention reads the lengths of the sources on the device
            if type(module).__name__ == "CrossAttention":
                module.kernel = lambda call: call.q
    stop, many, device = StopCondition(17), len(SOURCES) * rows, torch.device("cpu")
    state: Any = Greedy(many, 12, stop, device)
    if config.beam > 1:
        state = Beams(len(SOURCES), 12, BeamRules(config, stop), device)
    if config.sample:
        state = Sampled(processors_of(config, end_id=17), many, 12, stop, device)
    state.advance(stepper)  # makes the room of each layer
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        mode.shape_env = None
        state.advance(stepper)
        with pytest.raises(DataDependentOutputException):
            mode.from_tensor(torch.zeros(1)).item()
