"""What a stepper promises: rows go on as told, and an encoder's memory lies still until a source is over."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged
from qkv.models import catalogue
from qkv.models.fixed_steppers import KEPT
from qkv.nn import kernels
from tests.contracts.entries import MODELS, make, sequences
from tests.decoding.test_generate import FAMILIES, Uncached

MOVES = [[0, 1, 2], [0, 0, 0, 1, 1, 1, 2, 2, 2], [2, 1, 1, 3, 3, 4, 8, 7, 6], [0, 1, 2, 6, 8], [4, 3], [0, 1]]


def steps(stepper: Any) -> list[torch.Tensor]:
    """Move rows and step, again and again: rows are born, change places, the second source leaves, then the first."""
    draw, found = torch.Generator().manual_seed(3), []
    for move in MOVES:
        stepper.reorder(torch.tensor(move))
        found.append(stepper.step(torch.randint(2, 37, (len(move),), generator=draw)))
    return found


@pytest.mark.parametrize("name", [*FAMILIES, "alibi", "rotary", "relative"])
def test_rows_go_on_as_told(name: str) -> None:
    config = MODELS.get(name) or catalogue.override(MODELS["transformer-tiny"], {"position": name})
    module: Any = make(config)
    ids = sequences([5, 1, 12])
    for mine, other in zip(steps(module.start(Tokens.of(ids))), steps(Uncached(name, module, ids)), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("lengths", [[5, 1, 12], [2, 1, 12], [5, 5, 5]], ids=["even", "packed", "equal"])
def test_memory_lies_still_until_a_source_is_over(kernel: str, lengths: list[int]) -> None:
    module: Any = make(MODELS["transformer-tiny"])
    kernels.use(module, kernel)
    ids = sequences(lengths)
    stepper, other = module.start(Tokens.of(ids)), Uncached("transformer-tiny", module, ids)
    stepper.step(torch.zeros(3, dtype=torch.int64))
    stepper.reorder(torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2]))
    stepper.step(torch.zeros(9, dtype=torch.int64))
    kept = {layer: k.data_ptr() for layer, (k, _) in stepper.cache._memory.items()}
    assert len(kept) == 2
    stepper.reorder(torch.tensor([2, 1, 1, 3, 3, 4, 8, 7, 6]))
    assert {layer: k.data_ptr() for layer, (k, _) in stepper.cache._memory.items()} == kept
    stepper = module.start(Tokens.of(ids))
    for mine, wanted in zip(steps(stepper), steps(other), strict=True):
        torch.testing.assert_close(mine, wanted, atol=1e-4, rtol=0)
    assert stepper.askers.host_lengths == ([0, 0, 2] if lengths == [2, 1, 12] else [2])


def test_layouts_stay_where_nothing_changes() -> None:
    stepper: Any = make(MODELS["transformer-tiny"]).start(Tokens.of(sequences([4, 4])))  # type: ignore[operator]
    stepper.reorder(torch.tensor([0, 0, 1, 1]))
    askers = stepper.askers
    for _ in range(3):
        stepper.step(torch.tensor([3, 4, 5, 6]))
        stepper.reorder(torch.tensor([1, 0, 2, 2]))
    assert stepper.askers is askers
    assert len(askers.plans) == 1, "the plan of the rectangles is made once"


def test_prompts_are_read_but_for_their_last_tokens() -> None:
    module: Any = make(MODELS["gpt2"])
    stepper = module.start(Tokens.of([[5, 6, 7], [8], [9, 10]]))
    assert stepper.first.tolist() == [7, 8, 10]
    assert stepper.cache.lengths == [2, 0, 1]
    assert module.start(Tokens.of([[8], [9]])).cache.lengths == [0, 0]
    with pytest.raises(UsageError, match="at least one token"):
        module.start(Tokens(torch.tensor([4]), Ragged.of([1, 0])))


def test_steps_keep_no_graph() -> None:
    for name in ("gpt2", "transformer-tiny", "rnn-small"):
        module: Any = make(MODELS[name])
        assert not module.start(Tokens.of([[5, 6]])).step(torch.tensor([3])).requires_grad


def test_steppers_of_fixed_shapes_serve_again_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "recordable", lambda *_, **__: True)
    module: Any = make(MODELS["transformer-tiny"])
    found = [module.start(Tokens.of(sequences(lengths))).fixed(2, 8) for lengths in ([5, 1, 12], [4, 4, 10], [3])]
    assert found[0] is found[1], "the sizes are the same once rounded up"
    assert found[0] is not found[2]
    assert len(module.steppers) == 2
    for beams in range(3, 20):
        module.start(Tokens.of(sequences([3]))).fixed(beams, 8)
    assert len(module.steppers) == KEPT
    assert len(copy.deepcopy(module).steppers) == 0, "recordings belong to one model's weights"
    assert set(module.state_dict()) == set(make(MODELS["transformer-tiny"]).state_dict())
    module.steppers.clear()
    assert len(module.steppers) == 0
