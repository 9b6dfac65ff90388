"""Recorded steps against ordinary ones: the same batches, the same losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from qkv.common.batch import Images, Labelled
from qkv.models import catalogue
from qkv.nn.augment import Augment
from qkv.objectives import Classify, MaskedToken
from qkv.objectives.distill import Distill, DistillConfig
from qkv.objectives.images import ClassifyImages, ImageSettings
from qkv.objectives.mixture import Mixture
from qkv.objectives.teacher import Teacher
from qkv.training.config import TrainConfig
from qkv.training.loop import one_step, recorder_of
from qkv.training.optim import OptimConfig
from qkv.training.run import Job, Run
from tests.common.kinds import KINDS, REPLACED, masked, replaced_model, tokens
from tests.contracts.entries import make, shrink

pytestmark = pytest.mark.gpu
AUGMENT = Augment(crop=2, flip=True, rand_augment=9.0, mixup=0.8, cutmix=1.0, erase=0.25)


def pictures(lengths: list[int]) -> Labelled:
    """Images in colour, as many as there are lengths: only the largest batches are recorded."""
    random = np.random.default_rng(sum(lengths))
    pixels = torch.from_numpy(random.integers(0, 256, (len(lengths), 3, 12, 12), dtype=np.uint8))
    draws = AUGMENT.draw(random, len(lengths))
    return Labelled(Images(pixels, draws), torch.arange(len(lengths)) % 3)


IMAGES = ClassifyImages(settings=ImageSettings(smoothing=0.1, augment=AUGMENT))
MIXED = {
    "images": ("vit-mini", pictures, IMAGES, {"patches": {"stem": "conv"}}),
    "convolutions": ("convnet-mini", pictures, IMAGES, {}),
    "mixture": (
        "bert-base",
        lambda n: {"masked": masked(n), "labelled": Labelled(tokens(n), torch.arange(len(n)) % 2)},
        Mixture({"masked": (MaskedToken(), 1.0), "labelled": (Classify(), 0.5)}),
        {"heads": ["mlm", "classify"]},
    ),
}
LENGTHS = [[9, 5, 7], [4, 4, 6, 3], [8], [3, 9, 2], [5, 5, 5], [2, 3], [9, 9, 9, 9], [7, 1, 5], [6, 6], [3]]


def losses(
    kind: str,
    folder: Path,
    *,
    compile: str,
    optimizer: str = "adamw",
    dropout: float = 0.0,
    r_drop: float = 0.0,
    layer_decay: float = 1.0,
    lr: float = 1e-3,
    taught: bool = False,
) -> list[float]:
    torch.manual_seed(0)
    model: nn.Module
    if kind in REPLACED:
        objective, build = REPLACED[kind], masked
        model = replaced_model(objective).cuda().train()
    else:
        preset, build, objective, changes = (KINDS | MIXED)[kind]
        config = shrink(catalogue.preset(preset, **changes), dropout=dropout)
        if compile == "yes" or r_drop:  # compiling two layers takes half a minute
            depths = [key for key in ("num_layers", "num_decoder_layers") if hasattr(config, key)]
            config = replace(config, **dict.fromkeys(depths, 1))
        model = make(config).cuda().train()
        if taught:
            teacher = make(config).requires_grad_(False)
            for weight in teacher.parameters():
                weight.add_(0.1 * torch.randn_like(weight))
            objective = Distill(objective, Teacher(teacher), DistillConfig(teacher="teacher"))
    if r_drop:
        objective = replace(objective, r_drop=r_drop)

    def batches(position: int) -> Iterator[tuple[Any, int]]:
        while True:
            yield build(LENGTHS[position % len(LENGTHS)]), position + 1
            position += 1

    job = Job(model, objective, batches, 20, folder, None, lambda *_: None, print)
    run = Run(job, TrainConfig(compile=compile), OptimConfig(name=optimizer, lr=lr, warmup=0, layer_decay=layer_decay))
    torch.cuda.manual_seed(7)
    stream, recorder = job.batches(0), recorder_of(run)
    assert (recorder is None) == (compile == "no")
    found = [one_step(run, stream, recorder).values.tolist() for _ in range(20)]
    if recorder is not None:
        assert recorder.graph is not None
    return [value for values in found for value in values[:-1]]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("kind", [*KINDS, *MIXED, *REPLACED])
def test_recorded_steps_give_the_losses_of_ordinary_ones(kind: str, optimizer: str, tmp_path: Path) -> None:
    plain = losses(kind, tmp_path, compile="no", optimizer=optimizer)
    recorded = losses(kind, tmp_path, compile="record", optimizer=optimizer)
    torch.testing.assert_close(torch.tensor(recorded), torch.tensor(plain), atol=0.02, rtol=0.02)
    assert sum(plain[-10:]) < sum(plain[:10])


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_steps_with_a_teacher_give_the_losses_of_ordinary_ones(kind: str, tmp_path: Path) -> None:
    plain = losses(kind, tmp_path, compile="no", taught=True)
    recorded = losses(kind, tmp_path, compile="record", taught=True)
    torch.testing.assert_close(torch.tensor(recorded), torch.tensor(plain), atol=0.02, rtol=0.02)
    assert len(plain) > len(losses(kind, tmp_path, compile="no"))  # the teacher's part is among them


def test_layers_with_rates_of_their_own_are_recorded(tmp_path: Path) -> None:
    plain = losses("masked", tmp_path, compile="no", layer_decay=0.5)
    recorded = losses("masked", tmp_path, compile="record", layer_decay=0.5)
    torch.testing.assert_close(torch.tensor(recorded), torch.tensor(plain), atol=0.02, rtol=0.02)
    assert max(abs(a - b) for a, b in zip(plain, losses("masked", tmp_path, compile="no"), strict=True)) > 0.001


def test_compiled_steps_of_two_passes_give_the_losses_of_ordinary_ones(tmp_path: Path) -> None:
    """The layout of the two passes is made inside what is compiled."""
    plain = losses("translated", tmp_path, compile="no", r_drop=3.0)
    compiled = losses("translated", tmp_path, compile="yes", r_drop=3.0)
    torch.testing.assert_close(torch.tensor(compiled), torch.tensor(plain), atol=0.02, rtol=0.02)


@pytest.mark.parametrize("compile", ["record", "yes"])
def test_dropout_is_drawn_anew_at_each_replay(compile: str, tmp_path: Path) -> None:
    """Every batch comes twice, and the weights stay as they are."""
    found = losses("masked", tmp_path, compile=compile, dropout=0.5, lr=1e-12)
    first, second = found[: len(found) // 2], found[len(found) // 2 :]
    assert max(abs(a - b) for a, b in zip(first, second, strict=True)) > 0.01


def test_a_batch_larger_than_the_form_makes_it_grow(tmp_path: Path) -> None:
    preset, build, objective, changes = KINDS["translated"]
    model = make(shrink(catalogue.preset(preset, **changes))).cuda().train()
    small, large = build([3, 4]), build([9] * 12)

    def batches(position: int) -> Iterator[tuple[Any, int]]:
        while True:
            yield (large if position == 150 else small), position + 1
            position += 1

    job = Job(model, objective, batches, 20, tmp_path, None, lambda *_: None, print)
    run = Run(job, TrainConfig(compile="record"), OptimConfig(lr=1e-3))
    recorder = recorder_of(run)
    assert recorder is not None
    before = recorder.shape
    stream = job.batches(147)
    for _ in range(6):
        assert one_step(run, stream, recorder).values.isfinite().all()
    assert recorder.shape.rows[0] > before.rows[0]
    assert run.shape is not None
