"""Waiting threads sleep on a busy machine, and nowhere else."""

import os
import subprocess
import sys

import pytest

from qkv.cli import threads


@pytest.fixture
def clean(monkeypatch):
    for name in threads.NAMES:
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("loads", "busy"),
    [
        ("4.20 2.00 1.00 5/120 99\n", True),
        ("0.30 2.00 1.00 5/120 99\n", False),  # a moment's work
        ("4.20 2.00 1.00 1/120 99\n", False),  # it was busy, and is no more
        ("", False),
        ("a b c d e", False),
    ],
    ids=["busy", "idle", "done", "empty", "other"],
)
def test_busy_is_what_the_system_says(tmp_path, monkeypatch, clean, loads, busy):
    (tmp_path / "loadavg").write_text(loads)
    monkeypatch.setattr(threads, "LOADS", tmp_path / "loadavg")
    assert threads.is_busy(4) == busy
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    threads.choose_waiting()
    assert os.environ.get("OMP_WAIT_POLICY") == ("PASSIVE" if busy else None)


def test_a_system_that_does_not_tell_is_not_busy(tmp_path, monkeypatch):
    monkeypatch.setattr(threads, "LOADS", tmp_path / "none")
    assert not threads.is_busy(1)


@pytest.mark.parametrize("name", sorted(threads.NAMES))
def test_the_environment_decides(monkeypatch, clean, name):
    monkeypatch.setenv(name, "7")
    monkeypatch.setattr(threads, "is_busy", lambda _: True)
    threads.choose_waiting()
    assert {one: os.environ.get(one) for one in threads.NAMES} == dict.fromkeys(threads.NAMES) | {name: "7"}


def test_the_command_chooses_before_torch_and_the_library_never():
    code = (
        "import sys; from qkv.cli import main, threads\n"
        "threads.choose_waiting = lambda: sys.exit('torch' in sys.modules)\n"
        "main.run()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    code = "import os, qkv, qkv.predict; raise SystemExit('OMP_WAIT_POLICY' in os.environ)"
    clean = {name: value for name, value in os.environ.items() if name not in threads.NAMES}
    assert subprocess.run([sys.executable, "-c", code], env=clean, check=False).returncode == 0
