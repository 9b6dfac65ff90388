"""`qkv compare` and `qkv energy` as commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Shell = Callable[..., Any]


def test_layers(shell: Shell, tmp_path: Path) -> None:
    found = shell("compare", "layers", "--debug", "--out", tmp_path / "l", "--device", "cpu")
    assert (found.code, found.err) == (0, f"picture: {tmp_path / 'l' / 'layers.svg'}\n")
    assert "dilated convolution, k=3   k·n·d²" in found.out
    kept = json.loads((tmp_path / "l" / "layers.json").read_text())
    assert len(kept["layers"]) == 6
    said = shell("compare", "layers", "--debug", "--json", "--out", tmp_path / "l", "--device", "cpu").out
    assert json.loads(said)["sizes"] == kept["sizes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["layers", "--seeds", 2], "layers trains nothing"),
        (["layer"], "unknown comparison 'layer'; did you mean 'layers'"),
        (["models", "--seeds", 0], "--seeds must be at least 1, got 0"),
        (["models", "--set", "metrik"], "--set takes key=value"),
        (["models", "--set", "variants.rnn.sett=1"], "did you mean 'variants.rnn.set'"),
        (["models", "--set", "train.stepps=1"], "did you mean 'train.steps'"),
    ],
)
def test_wrong_usage(shell: Shell, tmp_path: Path, arguments: list[Any], message: str) -> None:
    found = shell("compare", *arguments, "--out", tmp_path / "x")
    assert (found.code, found.out) == (2, "")
    assert message in found.err
    assert not (tmp_path / "x").exists()


def test_a_comparison(shell: Shell, tmp_path: Path) -> None:
    """Two seeds of one variant from a file, then the same command again, as JSON."""
    file = tmp_path / "mine.toml"
    file.write_text(
        'recipe = "phrasebook"\nmetric = "loss"\n[variants.small]\nset.model.set.dim = 16\nset.model.set.ff_dim = 16\n'
    )
    small = ["train.steps=2", "train.tokens=200", "tokenizer.vocab_size=300", "train.workers=1", "data.test=[]"]
    data = ["data.train=phrasebook:train:60", "data.valid=phrasebook:valid:4"]
    command = ["compare", file, "--seeds", 2, "--out", tmp_path / "out", "--device", "cpu", "--set", *small, *data]
    found = shell(*command)
    assert found.code == 0, found.err
    assert found.out.splitlines()[1].startswith("small    ")
    assert "small, seed 2 (2 of 2)" in found.err
    again = json.loads(shell(*command, "--json").out)
    assert again == json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert again["seeds"] == [1, 2]
    assert len(again["variants"][0]["score"]["values"]) == 2
    total = json.loads(shell("energy", tmp_path / "out", "--grid", 100, "--json").out)
    assert total["total"]["kwh"] == pytest.approx(2 * again["variants"][0]["kwh"]["mean"])
    assert total["total"]["co2_g"] == pytest.approx(100 * total["total"]["kwh"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is not a folder"),
        (["--teacher", "en-de"], "takes both --teacher and --student"),
        (["runs", "--teacher", "en-de", "--student", "en-fr"], "leave them out with --teacher"),
        (["--watts", "3"], "are for --teacher and --student"),
    ],
)
def test_wrong_energy(shell: Shell, arguments: list[str], message: str) -> None:
    found = shell("energy", *arguments)
    assert (found.code, found.out) == (2, "")
    assert message in found.err
