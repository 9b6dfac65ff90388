"""The laws of the loop: exact resuming, accumulation, skipping, stopping, averaging."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.checkpoints.state import read_checkpoint, steps
from qkv.common.errors import QkvError
from qkv.training.config import TrainConfig
from qkv.training.loop import one_step, train
from qkv.training.optim import OptimConfig
from qkv.training.run import Run
from tests.training.toy import Squares, batch_at, batches, equal, final, job, model

OPTIM = OptimConfig(lr=0.05, warmup=3)
CONFIG = TrainConfig(validate_every=10, save_every=5, log_every=5, ema=0.9, keep=100)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_it_learns_and_leaves_what_it_says(tmp_path: Path) -> None:
    outcome = train(job(tmp_path, total=60), CONFIG, OPTIM)
    losses = [line["valid_loss"] for line in lines(tmp_path) if "valid_loss" in line]
    assert outcome.reason == "done"
    assert losses[-1] < losses[0] / 3
    assert outcome.best == min(losses)
    assert outcome.energy["seconds"] > 0
    assert outcome.energy["estimated"] in (True, False)
    assert (tmp_path / "best").is_dir()
    assert steps(tmp_path / "checkpoints")[-1] == 60


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_resuming_at_any_checkpoint_is_bit_for_bit(tmp_path: Path, optimizer: str) -> None:
    optim = OptimConfig(lr=0.05, warmup=3, name=optimizer)
    train(job(tmp_path / "whole", total=30), CONFIG, optim)
    for step in steps(tmp_path / "whole" / "checkpoints")[:-1]:
        folder = tmp_path / f"from-{step}"
        (folder / "checkpoints").mkdir(parents=True)
        os.symlink(tmp_path / "whole" / "checkpoints" / f"step-{step}", folder / "checkpoints" / f"step-{step}")
        torch.manual_seed(99)  # resuming must not depend on where the random state stands
        train(job(folder, total=30, model=model()), CONFIG, optim, resume=True)
        assert equal(final(folder), final(tmp_path / "whole"))
        a, b = (read_checkpoint(f / "checkpoints" / "step-30") for f in (folder, tmp_path / "whole"))
        assert all(torch.equal(a.parts["optimizer"][n], b.parts["optimizer"][n]) for n in b.parts["optimizer"])


def test_accumulating_four_equals_one_large_batch(tmp_path: Path) -> None:
    def large(position: int) -> Iterator[tuple[Any, int]]:
        while True:
            parts = [batch_at(position + i, rows=3 + (position + i) % 4) for i in range(4)]
            yield {key: torch.cat([part[key] for part in parts]) for key in ("x", "y")}, position + 4
            position += 4

    def small(position: int) -> Iterator[tuple[Any, int]]:
        while True:
            yield batch_at(position, rows=3 + position % 4), position + 1
            position += 1

    config = TrainConfig(validate_every=100, save_every=100)
    train(job(tmp_path / "one", model=model(0.0), batches=large, valid=None), config, OPTIM)
    four = TrainConfig(validate_every=100, save_every=100, accumulate=4)
    train(job(tmp_path / "four", model=model(0.0), batches=small, valid=None), four, OPTIM)
    one, other = final(tmp_path / "one"), final(tmp_path / "four")
    for name in one:
        torch.testing.assert_close(one[name], other[name], atol=1e-5, rtol=1e-4)


class Sick(Squares):
    """Not finite on some batches."""

    def __init__(self, bad: set[int]) -> None:
        self.bad, self.calls = bad, 0

    def __call__(self, module: Any, batch: Any) -> Any:
        found = super().__call__(module, batch)
        if not module.training:
            return found
        self.calls += 1
        if self.calls in self.bad:
            found["squares"] = type(found["squares"])(found["squares"].total * float("nan"), found["squares"].count)
        return found


def test_a_step_that_is_not_finite_is_left_out_and_counted(tmp_path: Path) -> None:
    outcome = train(job(tmp_path, objective=Sick({7, 12})), CONFIG, OPTIM)
    assert outcome.reason == "done"
    assert outcome.step == 30
    assert lines(tmp_path)[-2]["skipped"] == 2
    assert all(torch.isfinite(tensor).all() for tensor in final(tmp_path).values())


def test_several_in_a_row_roll_back_with_a_lower_rate(tmp_path: Path) -> None:
    outcome = train(job(tmp_path, objective=Sick(set(range(13, 18)))), CONFIG, OPTIM)
    assert outcome.step == 30
    assert read_checkpoint(tmp_path / "checkpoints" / "step-30").facts["slower"] == 0.5
    assert all(torch.isfinite(tensor).all() for tensor in final(tmp_path).values())


def test_a_run_that_cannot_be_saved_says_what_to_change(tmp_path: Path) -> None:
    with pytest.raises(QkvError, match=r"not been finite since step .* lower optim\.lr"):
        train(job(tmp_path, objective=Sick(set(range(8, 10_000)))), CONFIG, OPTIM)


def test_a_short_run_without_one_finite_loss_fails(tmp_path: Path) -> None:
    with pytest.raises(QkvError, match=r"none of the 3 steps had a finite loss: lower optim\.lr"):
        train(job(tmp_path, total=3, objective=Sick({1, 2, 3})), CONFIG, OPTIM)


def test_a_model_that_is_not_finite_is_named_before_a_step(tmp_path: Path) -> None:
    broken = model()
    with torch.no_grad():
        broken[3].weight[0, 2] = float("nan")  # type: ignore[index,operator]
    with pytest.raises(QkvError, match=r"the model to start from is broken: 3\.weight holds values that are not"):
        train(job(tmp_path, total=3, model=broken), CONFIG, OPTIM)
    assert not (tmp_path / "model.safetensors").exists()


def test_a_model_that_ends_not_finite_is_not_written(tmp_path: Path) -> None:
    class Breaking(Squares):
        def __call__(self, module: Any, batch: Any) -> Any:
            found = super().__call__(module, batch)
            module[3].bias.data.fill_(float("inf"))
            return found

    with pytest.raises(QkvError, match=r"the trained model is broken: 3\.bias"):
        train(job(tmp_path, total=1, valid=None, objective=Breaking()), TrainConfig(), OPTIM)
    assert not (tmp_path / "model.safetensors").exists()


def test_early_stopping(tmp_path: Path) -> None:
    config = TrainConfig(validate_every=2, save_every=50, patience=3)
    outcome = train(job(tmp_path, total=400), config, OptimConfig(lr=1e-12, warmup=0))
    assert outcome.reason == "early"
    assert outcome.step < 400


def test_a_run_that_stopped_early_takes_no_more_steps_when_it_is_resumed(tmp_path: Path) -> None:
    """As after a kill while the best weights are copied: an objective that counts its calls would learn otherwise."""
    config = TrainConfig(validate_every=5, save_every=50, patience=3)
    outcome = train(job(tmp_path, total=60, objective=Astray(20)), config, OPTIM)
    best = final(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    again = train(job(tmp_path, total=60, objective=Astray(0)), config, OPTIM, resume=True)
    assert (again.reason, again.step, again.best) == ("early", outcome.step, outcome.best)
    assert equal(final(tmp_path), best)


@pytest.mark.parametrize("patience", [0, 3])
def test_with_patience_the_best_weights_last(tmp_path: Path, patience: int) -> None:
    config = TrainConfig(validate_every=5, save_every=5, patience=patience, keep=100)
    outcome = train(job(tmp_path, total=60, objective=Astray(20)), config, OPTIM)
    found = [(line["valid_loss"], line["step"]) for line in lines(tmp_path) if "valid_loss" in line]
    assert outcome.reason == ("early" if patience else "done")
    best = min(found)[1]
    assert best < outcome.step
    kept = read_checkpoint(tmp_path / "checkpoints" / f"step-{best if patience else 60}").parts["model"]
    assert equal(final(tmp_path), kept)


class Astray(Squares):
    """Learns for some steps, then the opposite."""

    def __init__(self, steps: int) -> None:
        self.steps, self.calls = steps, 0

    def __call__(self, module: Any, batch: Any) -> Any:
        self.calls += module.training
        if module.training and self.calls > self.steps:
            batch = {**batch, "y": -batch["y"]}
        return super().__call__(module, batch)


def test_the_last_checkpoints_are_averaged(tmp_path: Path) -> None:
    config = TrainConfig(validate_every=100, save_every=5, average_last=3)
    train(job(tmp_path, valid=None), config, OPTIM)
    last = [read_checkpoint(tmp_path / "checkpoints" / f"step-{s}").parts["model"] for s in (20, 25, 30)]
    for name, tensor in final(tmp_path).items():
        torch.testing.assert_close(tensor, sum(part[name] for part in last) / 3)


def test_no_space_leaves_the_old_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qkv.common import disk

    real, calls = disk.write, []

    def full(file: Path, data: bytes) -> None:
        calls.append(file)
        if len(calls) > 12:
            raise OSError(28, "No space left on device")
        real(file, data)

    monkeypatch.setattr(disk, "write", full)
    with pytest.raises(QkvError, match="could not be written: No space left on device"):
        train(job(tmp_path), CONFIG, OPTIM)
    kept = steps(tmp_path / "checkpoints")
    assert kept
    assert read_checkpoint(tmp_path / "checkpoints" / f"step-{kept[-1]}").step == kept[-1]


CHILD = """
import sys, time
from pathlib import Path
from tests.training.toy import job, batches
from tests.training.test_loop import CONFIG, OPTIM
from qkv.training.loop import one_step, train

def slow(position):
    for item in batches(position):
        time.sleep(0.01)
        yield item

outcome = train(job(Path(sys.argv[1]), total=60, batches=slow, say=print), CONFIG, OPTIM, resume=True)
print(outcome.reason, flush=True)
"""


def child(folder: Path) -> subprocess.Popen[str]:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(["src", ".", os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-c", CHILD, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def wait_for(folder: Path, step: int, process: subprocess.Popen[str]) -> None:
    import time

    while process.poll() is None and step not in steps(folder / "checkpoints"):
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_stops_and_resuming_is_exact(tmp_path: Path, number: signal.Signals) -> None:
    train(job(tmp_path / "whole", total=60), CONFIG, OPTIM)
    process = child(tmp_path / "cut")
    wait_for(tmp_path / "cut", 20, process)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert f"{number.name}: saved at step" in out
    assert process.returncode == 0
    assert child(tmp_path / "cut").wait(timeout=60) == 0
    assert equal(final(tmp_path / "cut"), final(tmp_path / "whole"))


@pytest.mark.slow
def test_killed_at_ten_moments_and_resumed_each_time_the_weights_are_the_same(tmp_path: Path) -> None:
    import random
    import time

    train(job(tmp_path / "whole", total=60), CONFIG, OPTIM)
    draw = random.Random(0)
    for _ in range(10):
        process = child(tmp_path / "cut")
        time.sleep(2.0 + draw.random() * 1.5)
        process.kill()
        process.wait()
    assert child(tmp_path / "cut").wait(timeout=120) == 0
    assert equal(final(tmp_path / "cut"), final(tmp_path / "whole"))


def test_resuming_drops_lines_after_the_checkpoint(tmp_path: Path) -> None:
    train(job(tmp_path, total=30), CONFIG, OPTIM)
    with (tmp_path / "metrics.jsonl").open("a") as out:
        out.write(json.dumps({"step": 99, "loss": 1.0}) + '\n{"step": 100, "lo')
    train(job(tmp_path, total=40), CONFIG, OPTIM, resume=True)
    found = [line["step"] for line in lines(tmp_path) if "loss" in line]
    assert found == sorted(found)
    assert found[-1] == 40
    assert 99 not in found
    assert next(batches(0))[1] == 1


def test_what_wraps_the_learner_sees_every_batch(tmp_path: Path) -> None:
    """The place for DDP and FSDP2: a module around the way from a batch to its losses."""

    class Wrapper(torch.nn.Module):
        def __init__(self, learner: torch.nn.Module) -> None:
            super().__init__()
            self.learner, self.seen = learner, 0

        def forward(self, batch: Any) -> Any:
            self.seen += 1
            return self.learner(batch)

    plain, wrapped = (Run(job(tmp_path / name, model=model(0.0)), CONFIG, OPTIM) for name in ("plain", "wrapped"))
    wrapped.learner = Wrapper(wrapped.learner)
    for run in (plain, wrapped):
        stream = run.job.batches(0)
        for _ in range(3):
            one_step(run, stream)
    assert wrapped.learner.seen == 3
    assert equal(plain.weights(), wrapped.weights())
