"""A run that is killed at any change of the disk resumes to the same weights and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runs.killing import KILLED

# Measured times and energy differ between any two runs, and so do the digests of files that hold them.
TIMED = ("energy.json", "outcome.json", "metrics.jsonl", "recipe.toml", "inputs.json")
TIMED += ("report.html", "scores.json", "README.md")


def weights(left: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in left.items() if not name.endswith(TIMED)}


def kill(root: Path, first: int, stride: int) -> dict[str, Any]:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(["src", ".", os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "tests.runs.killing", str(root), str(first), str(stride)]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    return json.loads((root / "found.json").read_text())


@pytest.mark.parametrize(
    ("first", "stride"),
    [
        pytest.param(3, 29, id="some calls"),
        pytest.param(1, 1, id="every call", marks=pytest.mark.slow),
    ],
)
def test_killed_at_a_change_of_the_disk(tmp_path: Path, first: int, stride: int) -> None:
    found = kill(tmp_path, first, stride)
    whole = found["whole"]
    assert found["calls"] > 100
    assert {"model.safetensors", "best/model.safetensors"} <= whole.keys()
    assert whole["model.safetensors"] == whole["best/model.safetensors"]
    assert not any("checkpoint" in name for name in whole)  # a finished run keeps none, wherever it was killed
    for number, one in found["kills"].items():
        assert (one["killed"], one["resumed"]) == (KILLED, 0), number
        assert one["left"].keys() == whole.keys(), number
        assert weights(one["left"]) == weights(whole), number
