"""Exit codes of real processes, and where `--out` writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_faults import arguments
from tests.runs.killing import write_data

QKV = [sys.executable, "-c", "from qkv.cli.main import run; run()"]


def start(*command: str, **options: Any) -> subprocess.Popen[str]:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")]))
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.PIPE}
    return subprocess.Popen([*QKV, *command], text=True, env=environment, **pipes | options)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_a_signal_stops_ends_with_1_and_can_be_resumed(tmp_path: Path, number: signal.Signals) -> None:
    write_data(tmp_path)
    command = [*arguments(tmp_path, tmp_path / "run"), "train.steps=100000", "train.save_every=5"]
    process = start(*command)
    while process.poll() is None and not list((tmp_path / "run").glob("checkpoints/step-*")):
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert f"{number.name}: saved at step" in err
    assert "Traceback" not in err
    assert f"{number.name} after" in out
    assert not list((tmp_path / "run").glob(".*"))


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "stopped"), (signal.SIGTERM, 143, "stopped by SIGTERM")]
)
def test_a_prediction_that_a_signal_stops(
    tmp_path: Path, shell: Callable[..., Any], number: signal.Signals, code: int, said: str
) -> None:
    write_data(tmp_path)
    assert shell(*arguments(tmp_path, tmp_path / "run")).code == 0
    process = start("translate", str(tmp_path / "run"), "-", "--out", str(tmp_path / "out.txt"))
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write("ab\n")
    process.stdin.flush()
    while process.poll() is None and not list(tmp_path.glob(".out.txt.*")):
        time.sleep(0.02)
    process.send_signal(number)
    process.wait(timeout=60)
    assert (process.returncode, process.stderr.read()) == (code, f"qkv: {said}\n")
    assert not [*tmp_path.glob("out.txt*"), *tmp_path.glob(".out.txt*")]


def test_a_full_standard_output_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        process = start("info", "bert-tiny", stdout=full)
        assert process.communicate(timeout=60)[1] == "qkv: standard input or output failed: No space left on device\n"
    assert process.returncode == 1


def test_a_reader_that_goes_away_ends_it_without_a_word() -> None:
    read, write = os.pipe()
    os.close(read)
    process = start("info", "bert-tiny", stdout=write)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 1


def test_out_goes_through_links_and_never_over_devices(
    tmp_path: Path, shell: Callable[..., Any], null_device: Path
) -> None:
    write_data(tmp_path)
    run = tmp_path / "run"
    assert shell(*arguments(tmp_path, run)).code == 0
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    answer = shell("translate", run, "ab", "--max-length", 3).out
    before = null_device.stat()
    for out in (null_device, tmp_path / "link"):
        assert shell("translate", run, "ab", "--max-length", 3, "--out", out).code == 0
    assert os.path.samestat(null_device.stat(), before)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == answer
    assert shell("translate", run, "ab", "--max-length", 3, "--out", "/dev/fd/1").out == answer
    refused = shell("translate", run, "ab", "--out", run)
    assert (refused.code, refused.err) == (2, f"qkv: {run} is a folder: give a regular file instead\n")
