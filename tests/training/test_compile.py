"""Where steps are compiled or recorded, and where that is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.nn import biased_attention, kernels
from qkv.training import run
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
