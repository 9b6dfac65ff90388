"""The operations of a step, counted without running any attention kernel."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from qkv.common.batch import Pairs, Translated, size
from qkv.models import catalogue
from qkv.nn import kernels
from qkv.objectives.translate import Translate
from qkv.training import peak
from qkv.training.config import TrainConfig
from qkv.training.optim import OptimConfig
from qkv.training.run import Job, Run
from tests.common.kinds import KINDS, tokens
from tests.contracts.entries import SMALL, make, shrink


def run_of(preset: str, objective: Any, folder: Path, **changes: Any) -> Run:
    model = make(shrink(catalogue.preset(preset, **changes))).train()
    job = Job(model, objective, lambda _: iter(()), 1, folder, None, lambda *_: None, print)
    return Run(job, TrainConfig(), OptimConfig())


def counted(run: Run, batch: Any, kernel: str) -> int:
    """What torch's counter sees in sequences of one length, where nothing is padded."""
    kernels.use(run.job.model, kernel)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run.plain_losses(batch)
    kernels.use(run.job.model, "auto")
    return counter.get_total_flops()


@pytest.mark.parametrize("kind", [*KINDS, "t5"])
def test_all_products_are_counted(kind: str, tmp_path: Path) -> None:
    preset, build, objective, changes = KINDS.get(kind) or ("t5-small", KINDS["translated"][1], Translate(), {})
    run = run_of(preset, objective, tmp_path, **changes)
    batch = build([6, 6, 6])
    chance = torch.get_rng_state()
    assert peak.operations(run, batch) == 3 * counted(run, batch, "eager")
    assert torch.equal(torch.get_rng_state(), chance)
    assert all(module.kernel is kernels.automatic for module in run.job.model.modules() if hasattr(module, "kernel"))


def test_attention_is_counted_sequence_by_sequence(tmp_path: Path) -> None:
    _, build, objective, changes = KINDS["tagged"]
    run = run_of("bert-base", objective, tmp_path, **changes)
    numbers = {n: peak.operations(run, build(lengths)) for n, lengths in ((9, [9, 1]), (5, [5, 5]))}
    assert numbers[9] - numbers[5] == 3 * 4 * SMALL["dim"] * SMALL["num_layers"] * (81 + 1 - 50)


def test_a_recurrent_network_is_counted(tmp_path: Path) -> None:
    run = run_of("rnn-base", Translate(), tmp_path)
    source = tokens([4, 4])
    assert peak.operations(run, Translated(Pairs(source, source), source.ids)) > 0


def test_a_count_that_fails_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = KINDS["translated"][1]([3, 2])
    stands = SimpleNamespace(
        device=torch.device("cuda"), bf16=True, job=SimpleNamespace(batches=lambda _: iter([(batch, 1)]))
    )
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(peak, "operations", lambda *_: peak.PEAKS["H200"])
    assert peak.work_per_unit(stands) == pytest.approx(1 / size(batch)[0])  # type: ignore[arg-type]

    def fails(*_: Any) -> float:
        raise TypeError("no implementation found for 'torch.ops.higher_order.flex_attention'")

    monkeypatch.setattr(peak, "operations", fails)
    assert peak.work_per_unit(stands) is None  # type: ignore[arg-type]
