"""`qkv prune` and `qkv shrink` on the command line: their tables, their JSON and their errors."""

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


@pytest.fixture
def classifier(tmp_path: Path) -> tuple[Path, Path]:
    """A classifier that was never trained, and a file with answers."""
    from tests.predict.readers import make_reader

    make_reader("pool", "classify", labels=("bad", "good")).save(tmp_path / "model")
    rows = [f"the dog runs {number} times,{'good' if number % 2 else 'bad'}" for number in range(40)]
    data = tmp_path / "t.csv"
    data.write_text("\n".join(["text,label", *rows]) + "\n")
    return tmp_path / "model", data


def test_shrink_prints_the_table_and_writes_the_model(
    shell: Any, classifier: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "small"
    said = shell("shrink", *classifier, "--quick", "--target", "100 MB", "--target", "-100 points", "--out", out)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0].split("  ")[-1].strip() == "J"
    assert [line.split("  ")[0] for line in lines[1:3]] == ["as it is", "int8"]
    assert "100 MB and -100 points" in said.out
    assert lines[-1] == f"table and picture: {out}/shrink.json, {out}/frontier.svg"
    assert shell("classify", out, "the dog").code == 0


def test_shrink_as_json_and_a_target_that_nothing_meets(
    shell: Any, classifier: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "small"
    said = shell("shrink", *classifier, "--quick", "--target", "0.0001 ms", "--json", "--device", "cpu", f"out={out}")
    assert said.code == 1
    found = json.loads(said.out)
    assert (found["met"], found["chosen"], found["folder"]) == (False, None, str(out))
    assert found["candidates"][0]["speed"]["milliseconds"] == found["candidates"][0]["milliseconds"] > 0
    last = said.err.splitlines()[-1]
    assert last.startswith("qkv: no candidate meets 0.0001 ms: ")
    assert last.endswith("ms too slow), so no model is written")
    assert not (out / "config.json").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], 'name a target, such as "5 ms"'),
        (["--target", "5 sec"], 'a target is such as "5 ms" for an answer, "10 MB"'),
        (["--target", "1 MB", "--test", "nowhere.csv"], "nowhere.csv"),
        (["--target", "1 MB", "--device", "tpu"], "tpu"),
        (["--target", "1 MB", "--set", "train.stepz=1"], "did you mean 'train.steps'"),
    ],
)
def test_bad_input_for_shrink(
    shell: Any, classifier: tuple[Path, Path], tmp_path: Path, given: list[str], message: str
) -> None:
    said = shell("shrink", *classifier, *given, "--quick", "--out", tmp_path / "small")
    assert said.code == 2
    assert said.out == ""
    assert message in said.err.splitlines()[-1]
    assert not (tmp_path / "small").exists()
