"""Recorded searches on the GPU against the ordinary ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from qkv.common.batch import Tokens
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.models import catalogue
from tests.contracts.entries import make, shrink

pytestmark = pytest.mark.gpu
BATCHES = [
    [[5, 6, 7, 8, 9], [11, 3], [4, 4, 9, 20, 21, 22, 23], [8]],
    [[9, 8, 3, 5, 6], [7, 3, 11], [5, 5, 9, 21, 20, 22, 22], [18]],
]


class Ordinary:
    """A stepper that offers no fixed shapes."""

    def __init__(self, stepper: Any) -> None:
        self.stepper, self.device = stepper, stepper.device
        self.step, self.reorder = stepper.step, stepper.reorder

    def fixed(self, beams: int, longest: int) -> None:
        del beams, longest


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("preset", ["transformer-base", "gpt2"])
@torch.inference_mode()
def test_recorded_is_ordinary(preset: str, beam: int) -> None:
    torch.manual_seed(1)
    config = shrink(catalogue.preset(preset), dim=64, num_heads=2)
    model = make(dataclasses.replace(config)).cuda().to(torch.float16)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)  # scores far enough apart that rounding changes no choice
    search = DecodingConfig(beam=beam, nbest=beam)
    for sources in BATCHES:
        found = []
        for wrap in (Ordinary, lambda stepper: stepper):
            stepper = model.start(Tokens.of(sources, device="cuda"))
            first = getattr(stepper, "first", torch.zeros(len(sources), dtype=torch.int64, device="cuda"))
            found.append(generate(wrap(stepper), first, end_id=17, max_lengths=[9, 4, 12, 1], config=search))
        for mine, theirs in zip(*found, strict=True):
            assert [h.ids for h in mine] == [h.ids for h in theirs]
            assert [h.score for h in mine] == pytest.approx([h.score for h in theirs], abs=0.05)
    assert len(model.steppers) == 1  # one recording served both batches
