"""Whole commands on a disk that fails at the n-th call: one sentence, exit code 1, and nothing is lost."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs.killing import CHANGES, write_data

EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir", "fsync")
ERRORS = (errno.EACCES, errno.ENOSPC, errno.EROFS, errno.EIO)


class Faults:
    """Fails the n-th call about a path under a root. A hook stays for good, so that there is one for all tests."""

    def __init__(self) -> None:
        self.root, self.at, self.calls, self.error = "", 0, 0, 0
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.root and event in EVENTS and str(arguments[0]).startswith(self.root):
            self.calls += 1
            if self.calls == self.at:
                raise OSError(self.error, os.strerror(self.error), arguments[0])

    def start(self, root: Path, at: int, error: int = 0) -> None:
        self.root, self.at, self.calls, self.error = str(root), at, 0, error

    def stop(self) -> None:
        self.root = ""


FAULTS = Faults()


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    real = os.fsync

    def fsync(handle: int) -> None:
        FAULTS.hear("fsync", (os.readlink(f"/proc/self/fd/{handle}"),))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    yield FAULTS
    FAULTS.stop()


def sweep(faults: Faults, root: Path, command: Callable[[], Any], stride: int, after: Callable[[Any], None]) -> int:
    """Run a command once for each call that may fail; return how many of them made it fail."""
    faults.start(root, 0)
    assert command().code == 0
    total, failed = faults.calls, 0
    faults.stop()
    for at in range(1, total + 1, stride):
        faults.start(root, at, ERRORS[at // stride % len(ERRORS)])
        result = command()
        faults.stop()
        assert "Traceback" not in result.err, (at, result.err)
        if result.code:
            failed += 1
            *_, last = result.err.splitlines()
            assert last.startswith("qkv: "), (at, result.err)
            assert result.code == 1, (at, result.err)
        after(result)
    return failed


FULL = [pytest.param(41, id="some calls"), pytest.param(1, id="every call", marks=pytest.mark.slow)]


def arguments(root: Path, out: Path) -> list[str]:
    files = [f"data.{part}=[{root}/{part}.en,{root}/{part}.fr]" for part in ("train", "valid")]
    changes = [*CHANGES, *files, f"out={out}", "train.steps=2", "train.patience=0"]
    return ["train", "phrasebook", "--debug", "--device", "cpu", "--set", *changes]


@pytest.mark.parametrize("stride", FULL)
def test_training(shell: Callable[..., Any], faults: Faults, tmp_path: Path, stride: int) -> None:
    write_data(tmp_path)
    number = 0

    def command() -> Any:
        nonlocal number
        number += 1
        return shell(*arguments(tmp_path, tmp_path / str(number)))

    def after(result: Any) -> None:
        if result.code:
            again = shell(*arguments(tmp_path, tmp_path / str(number)), "--resume")
            assert again.code == 0, again.err
            assert not list((tmp_path / str(number)).rglob(".*"))
        model = (tmp_path / str(number) / "model.safetensors").read_bytes()
        assert model == (tmp_path / "1" / "model.safetensors").read_bytes()

    assert sweep(faults, tmp_path, command, stride, after) >= 2


@pytest.mark.parametrize("stride", [1])
@pytest.mark.parametrize("verb", ["translate", "evaluate", "info"])
def test_asking(shell: Callable[..., Any], faults: Faults, tmp_path: Path, verb: str, stride: int) -> None:
    write_data(tmp_path)
    out = tmp_path / "run"
    assert shell(*arguments(tmp_path, out)).code == 0
    (tmp_path / "answers").write_text("old")
    asked = {
        "translate": ["--file", tmp_path / "valid.en", "--max-length", 3, "--out", tmp_path / "answers"],
        "evaluate": [tmp_path / "valid.en", tmp_path / "valid.fr", "--beam", 1],
        "info": [],
    }[verb]
    names = sorted(os.listdir(tmp_path))

    def after(result: Any) -> None:
        assert sorted(os.listdir(tmp_path)) == names
        assert (tmp_path / "answers").read_text()

    assert sweep(faults, tmp_path, lambda: shell(verb, out, *asked), stride, after) >= 2
