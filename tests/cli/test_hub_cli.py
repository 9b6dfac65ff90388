"""A model on the Hub from the command line, in processes of their own that read the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub_server import HubServer


def embed(hub: HubServer, home: Path, name: str, **more: str) -> subprocess.CompletedProcess[str]:
    given = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "OMP_NUM_THREADS": "1", **more}
    command = [sys.executable, "-m", "qkv", "embed", name, "the cat", "--device", "cpu"]
    return subprocess.run(command, env=os.environ | given, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_environment_says_where_models_come_from_and_go(hub: HubServer, bert_folder: Path, tmp_path: Path) -> None:
    commit = hub.add("ann/tiny", bert_folder)
    first = embed(hub, tmp_path, "hf:ann/tiny")
    assert (first.returncode, first.stderr) == (0, "")
    assert (tmp_path / "hub" / "models--ann--tiny" / "snapshots" / commit / "config.json").is_file()
    hub.requests = 0
    again = embed(hub, tmp_path, "hf:ann/tiny", HF_HUB_OFFLINE="1")
    assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")
    missing = embed(hub, tmp_path, "hf:ann/other", HF_HUB_OFFLINE="1")
    said = "qkv: hf:ann/other is not in the cache: unset HF_HUB_OFFLINE once to download it\n"
    assert (missing.returncode, missing.stdout, missing.stderr) == (1, "", said)
    assert hub.requests == 0
