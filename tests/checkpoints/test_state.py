"""A checkpoint is whole or not there, whatever fails; and no damage passes unseen."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.checkpoints import state
from qkv.checkpoints.state import (
    Checkpoint,
    keep_checkpoints,
    newest_checkpoint,
    read_checkpoint,
    steps,
    write_checkpoint,
)
from qkv.common import disk
from qkv.common.errors import QkvError


def checkpoint(step: int) -> Checkpoint:
    draw = torch.Generator().manual_seed(step)
    parts = {
        "model": {"weight": torch.randn(40, 3, generator=draw), "bias": torch.randn(3, generator=draw)},
        "optimizer": {"weight/exp_avg": torch.randn(40, 3, generator=draw), "weight/step": torch.tensor(float(step))},
        "random": {"cpu": torch.randint(0, 255, (64,), dtype=torch.uint8, generator=draw)},
    }
    return Checkpoint(step, parts, {"position": 7 * step, "best": 0.5})


def same(a: Checkpoint, b: Checkpoint) -> bool:
    tensors = all(torch.equal(a.parts[part][name], b.parts[part][name]) for part in a.parts for name in a.parts[part])
    return a.step == b.step and tensors and dict(a.facts) == dict(b.facts) and a.parts.keys() == b.parts.keys()


def silent(message: str) -> None:
    del message


def test_a_checkpoint_survives_the_disk(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, checkpoint(12))
    assert same(read_checkpoint(tmp_path / "step-12"), checkpoint(12))
    assert steps(tmp_path) == [12]


class Crash(BaseException):
    """The power goes: nothing of the program runs on."""


class Faulty:
    """A disk that fails at the n-th call. Bytes that were not synced are lost in a crash."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, kind: str) -> None:
        self.calls, self.at, self.kind = 0, at, kind
        self.unsynced: set[Path] = set()
        for name in ("write", "sync", "rename", "remove"):
            monkeypatch.setattr(disk, name, self._wrap(name, getattr(disk, name)))

    def _wrap(self, name: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            self.calls += 1
            if self.calls != self.at:
                real(*arguments)
                return
            if name == "write" and self.kind != "no space":  # cut off in the middle
                file, data = arguments
                file.write_bytes(data[: len(data) // 2])
            if self.kind == "no space":
                raise OSError(28, "No space left on device")
            raise Crash

        return call


@pytest.mark.parametrize("kind", ["no space", "crash"])
@pytest.mark.parametrize("again", [False, True], ids=["new step", "same step"])
def test_a_fault_at_any_call_leaves_the_old_or_the_new_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, again: bool
) -> None:
    step = 10 if again else 20
    faults = 0
    for at in range(1, 100):
        root = tmp_path / str(at)
        write_checkpoint(root, checkpoint(10))
        with monkeypatch.context() as patch:
            faulty = Faulty(patch, at, kind)
            try:
                write_checkpoint(root, Checkpoint(step, checkpoint(20).parts, {"position": 1}))
            except (QkvError, Crash):
                faults += 1
        found = newest_checkpoint(root, silent)
        assert found is not None
        new = Checkpoint(step, checkpoint(20).parts, {"position": 1})
        assert same(found, checkpoint(10)) or same(found, new)
        if faulty.calls < at:  # the save ended before the fault came
            assert same(found, new)
            break
    assert faults >= 6


def test_a_thousand_corruptions_are_all_seen(tmp_path: Path) -> None:
    """Flips, truncations, swapped files, lost files, foreign bytes."""
    draw = random.Random(0)
    whole, other = tmp_path / "a", tmp_path / "b"
    write_checkpoint(whole, checkpoint(1))
    write_checkpoint(other, checkpoint(2))
    source, foreign = whole / "step-1", other / "step-2"
    names = sorted(path.name for path in source.iterdir())
    seen = 0
    for number in range(1000):
        work = tmp_path / "work"
        shutil.copytree(source, work)
        file = work / draw.choice(names)
        data = bytearray(file.read_bytes())
        match number % 5:
            case 0 | 1:
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
                file.write_bytes(data)
            case 2:
                file.write_bytes(data[: draw.randrange(len(data))])
            case 3:
                shutil.copy(foreign / file.name, file)
            case 4:
                if draw.random() < 0.5:
                    file.unlink()
                else:
                    file.write_bytes(data + b"x")
        try:
            read_checkpoint(work)
        except QkvError:
            seen += 1
        shutil.rmtree(work)
    assert seen == 1000


def test_a_damaged_newest_checkpoint_is_said_and_the_one_before_is_taken(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, checkpoint(step))
    file = tmp_path / "step-3" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    said: list[str] = []
    found = newest_checkpoint(tmp_path, said.append)
    assert found is not None
    assert found.step == 2
    assert len(said) == 1
    assert "step-3" in said[0]
    assert "model.safetensors is damaged" in said[0]


def test_only_the_newest_are_kept_and_leftovers_go(tmp_path: Path) -> None:
    for step in (1, 2, 30, 4):
        write_checkpoint(tmp_path, checkpoint(step))
    os.mkdir(tmp_path / ".step-50.abc")
    keep_checkpoints(tmp_path, 2)
    assert sorted(os.listdir(tmp_path)) == ["step-30", "step-4"]


def test_nothing_there(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "none", silent) is None
    assert state.steps(tmp_path) == []
