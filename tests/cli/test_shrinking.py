"""`qkv prune` on the command line: its table, its JSON and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_prune_prints_what_was_removed_and_who_reads_it(shell: Any, bert_folder: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("the cat sat\n")
    out = tmp_path / "small"
    said = shell("prune", bert_folder, out, "--layers", "0,", "--vocabulary", words)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].split() == ["before", "pruned"]
    assert lines[1].split()[0] == "parameters"
    assert "dropped layer 0" in lines
    assert any(line.endswith("tokens removed") for line in lines)
    assert lines[-1] == f"{out}: stored as bert; transformers reads it"


def test_prune_as_json(shell: Any, bert_folder: Path, tmp_path: Path) -> None:
    said = shell("prune", bert_folder, tmp_path / "small", "--layers", "1", "--json")
    found = json.loads(said.out)
    assert found["layers"] == {"stack": [1]}
    assert found["pruned"]["parameters"] < found["before"]["parameters"]
    assert found["healed"] is None


@pytest.mark.parametrize("text", ["", "x", "1.5", "encoder:", ":1", "-1", "1,b"])
def test_layers_that_are_no_numbers(shell: Any, bert_folder: Path, tmp_path: Path, text: str) -> None:
    said = shell("prune", bert_folder, tmp_path / "small", f"--layers={text}")
    assert said.code == 2
    assert "--layers takes a number of layers, or layers such as 1,3, or decoder:2" in said.err
