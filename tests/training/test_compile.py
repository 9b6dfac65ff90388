"""Where steps are compiled or recorded, and where that is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.nn import biased_attention, kernels
from qkv.objectives.distill import Distill, DistillConfig
from qkv.objectives.teacher import Teacher
from qkv.training import run
from qkv.training.config import TrainConfig
from qkv.training.optim import OptimConfig
from tests.contracts.entries import make, shrink

CUDA = torch.device("cuda")


def test_compiling_is_refused_where_nothing_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "buildable", lambda _: False)
    with pytest.raises(UsageError, match=r"train\.compile = yes needs Triton"):
        run.check_compile("yes", CUDA)
    run.check_compile("record", CUDA)
    run.check_compile("yes", torch.device("cpu"))
    monkeypatch.setattr(run, "buildable", lambda _: True)
    run.check_compile("yes", CUDA)


@pytest.mark.parametrize("buildable", [True, False])
@pytest.mark.parametrize(
    ("preset", "changes", "recordable"),
    [
        ("gpt2", {}, "always"),
        ("gpt2", {"position": "rotary"}, "always"),
        ("gpt2", {"position": "alibi"}, "built"),
        ("t5-small", {}, "built"),
        ("t5-small", {"head_dim": 160}, "never"),
        ("gpt2", {"position": "relative"}, "never"),
        ("gpt2", {"position": "rotary-dynamic"}, "never"),
        ("rnn-base", {}, "never"),
        ("word2vec-small", {}, "never"),
        ("vit-b16", {}, "always"),
        ("vit-b16", {"num_layers": 3, "patches": {"window": 2}}, "never"),
    ],
)
def test_which_models_can_be_recorded(
    preset: str, changes: dict[str, Any], recordable: str, buildable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(biased_attention, "buildable", lambda _: buildable)
    model = make(shrink(dataclasses.replace(catalogue.preset(preset)), **changes))
    wanted = {"always": True, "built": buildable, "never": False}[recordable]
    assert kernels.recordable(model, CUDA, torch.bfloat16) == wanted
    assert not kernels.recordable(model, CUDA, torch.float32)
    for name in ("cpu", "cuda"):  # a decoder of prompts has fixed shapes in fp32 too, unless it adds a bias
        decodes = kernels.recordable(model, torch.device(name), torch.float32, over_slots=True)
        assert decodes == (name == "cuda" and recordable == "always")


def test_a_network_of_convolutions_is_recorded_in_any_dtype() -> None:
    model = make(shrink(catalogue.preset("convnet-mini")))
    assert all(kernels.recordable(model, CUDA, dtype) for dtype in (torch.bfloat16, torch.float32))
    assert not kernels.recordable(model, torch.device("cpu"), torch.float32)


def test_steps_with_a_teacher_are_recorded_where_both_models_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student, teacher = nn.Linear(2, 2), nn.Linear(2, 2)
    objective = Distill(None, Teacher(teacher), DistillConfig(teacher="teacher"))  # type: ignore[arg-type]
    job = run.Job(student, objective, lambda _: iter(()), 1, tmp_path, None, lambda *_: None, print)
    able = {student}
    monkeypatch.setattr(run, "recordable", lambda model, *_: model in able)
    assert not run.Run(job, TrainConfig(), OptimConfig()).recordable()
    able.add(teacher)
    assert run.Run(job, TrainConfig(), OptimConfig()).recordable()
