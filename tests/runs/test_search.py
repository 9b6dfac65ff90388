"""`qkv train RECIPE --search`: the best of three rates, wherever it is cut off."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import qkv
from qkv.cli.main import app
from qkv.common.errors import QkvError, UsageError
from qkv.recipes.schema import Recipe, read_recipe
from qkv.runs import search as module
from qkv.runs.run import run_recipe
from qkv.runs.search import search
from tests.runs.test_finetune import write

RATES = {"search-1x": 0.004, "search-0.5x": 0.002, "search-2x": 0.008}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("search")
    return write(folder / "a.csv", 60, 1), write(folder / "b.csv", 40, 2)


def recipe(bert_folder: Path, files: tuple[str, str], out: Path, *changes: str) -> Recipe:
    given = [f"model.init={bert_folder}", f"data.train=[{files[0]}]", f"data.valid=[{files[1]}]", f"out={out}"]
    small = ["optim.lr=0.004", "train.steps=6", "train.tokens=64", "train.workers=1", "train.save_every=3"]
    return read_recipe("classify", [*given, *small, *changes])


def go(asked: Recipe, *, resume: bool = False) -> tuple[Any, list[str]]:
    said: list[str] = []
    return search(asked, resume=resume, device="cpu", say=said.append), said


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return qkv.load(folder, device="cpu").module.state_dict()


def same(a: Path, b: Path) -> bool:
    one, other = weights(a), weights(b)
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def whole(bert_folder: Path, files: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, *go(recipe(bert_folder, files, out))


def test_the_best_of_three_is_the_run_of_that_rate(
    whole: tuple[Path, Any, Any], bert_folder: Path, files: tuple[str, str], tmp_path: Path
) -> None:
    """Each rate run by itself is the oracle: same figures, same choice, same weights."""
    out, outcome, said = whole
    decided = json.loads((out / "search.json").read_text())
    figures = {}
    for name, rate in RATES.items():
        alone = tmp_path / name
        run_recipe(recipe(bert_folder, files, alone, f"optim.lr={rate}"), device="cpu", say=lambda _: None)
        last = [json.loads(line) for line in (alone / "metrics.jsonl").read_text().splitlines()][-1]
        figures[name] = (-last["valid_accuracy"], last["valid_loss"])
        assert decided["tries"][name]["lr"] == rate
        scores = decided["tries"][name]["scores"]
        assert (-scores["accuracy"], scores["loss"]) == figures[name]
    best = min(figures, key=figures.__getitem__)
    assert decided["best"] == best
    assert same(out, tmp_path / best)
    assert outcome.step == 6
    kept = read_recipe(str(out / "recipe.toml"))
    assert (kept.optim.lr, kept.out, kept.data.cache) == (RATES[best], str(out), "")
    assert not (out / best).exists()
    assert said[-1].splitlines()[0].startswith("learning rate 0.004     accuracy 0.")
    (chosen,) = [line for line in said[-1].splitlines() if line.endswith("(best)")]
    assert chosen.startswith(f"learning rate {RATES[best]:g} ")


def test_resuming_what_is_done_says_it_again_and_runs_nothing(
    whole: tuple[Path, Any, Any], bert_folder: Path, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, outcome, said = whole
    monkeypatch.setattr(module, "run_recipe", lambda *_, **__: pytest.fail("nothing is left to run"))
    again, repeated = go(recipe(bert_folder, files, out), resume=True)
    assert (again, repeated) == (outcome, said[-1:])
    with pytest.raises(UsageError, match="already holds a run"):
        go(recipe(bert_folder, files, out))
    with pytest.raises(UsageError, match="differs from this recipe"):
        go(recipe(bert_folder, files, out, "train.seed=9"), resume=True)


def test_a_search_that_was_cut_off_goes_on(
    whole: tuple[Path, Any, Any], bert_folder: Path, files: tuple[str, str], tmp_path: Path, monkeypatch: Any
) -> None:
    """Once between two runs, and once at every move to the final place."""
    out, asked, done = tmp_path / "run", recipe(bert_folder, files, tmp_path / "run"), list[str]()

    def stopping(one: Recipe, **rest: Any) -> Any:
        done.append(Path(one.out).name)
        if len(done) == 2:
            raise KeyboardInterrupt
        return run_recipe(one, **rest)

    monkeypatch.setattr(module, "run_recipe", stopping)
    with pytest.raises(KeyboardInterrupt):
        go(asked)
    assert not (out / "config.json").exists()
    moves, move = list[str](), os.replace

    def failing(old: Any, new: Any) -> None:
        if Path(old).parent.name.startswith("search-") and Path(new).parent == out:
            moves.append(Path(old).name)
            if moves.count(Path(old).name) == 1:
                raise KeyboardInterrupt
        move(old, new)

    monkeypatch.setattr(module.os, "replace", failing)
    cut = 0
    while True:
        try:
            go(asked, resume=True)
            break
        except KeyboardInterrupt:
            cut += 1
            assert not (out / "config.json").exists() or "config.json" in moves[:-1]
    assert done == ["search-1x", "search-0.5x", "search-0.5x", "search-2x"]
    assert cut == len(set(moves)) > 5
    assert moves[-1] == "config.json"  # until the last move the folder is no model
    assert same(out, whole[0])


def test_a_rate_that_fails_loses_and_the_recipes_own_may_not(
    bert_folder: Path, files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(factor: str) -> Any:
        def run(one: Recipe, **rest: Any) -> Any:
            if Path(one.out).name == f"search-{factor}x":
                raise QkvError("the loss is not finite")
            return run_recipe(one, **rest)

        return run

    monkeypatch.setattr(module, "run_recipe", failing("2"))
    _, said = go(recipe(bert_folder, files, tmp_path / "run", "train.steps=1"))
    assert "learning rate 0.008 failed: the loss is not finite" in said
    assert "0.008" in said[-1]
    assert qkv.load(tmp_path / "run", device="cpu").labels == ("cats", "none")
    monkeypatch.setattr(module, "run_recipe", failing("1"))
    with pytest.raises(QkvError, match="the loss is not finite"):
        go(recipe(bert_folder, files, tmp_path / "other", "train.steps=1"))
    assert not (tmp_path / "other").exists()


def test_runs_and_searches_do_not_mix(bert_folder: Path, files: tuple[str, str], tmp_path: Path) -> None:
    asked = recipe(bert_folder, files, tmp_path / "run", "train.steps=1")
    run_recipe(asked, device="cpu", say=lambda _: None)
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match="is not empty and holds no run"):
        go(asked, resume=True)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert not (tmp_path / "run" / "search.toml").exists()


def test_the_command(bert_folder: Path, files: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(Path(files[0]).read_text() + '"the dog"\n')
    changes = [f"model.init={bert_folder}", f"data.train=[{tmp_path / 'bad.csv'}]", f"data.valid=[{files[1]}]"]
    small = ["train.steps=1", "train.workers=1", f"out={tmp_path / 'run'}"]
    command = ["train", "classify", "--search", "--json", "--device", "cpu", "--set", *changes, *small]
    with pytest.raises(QkvError, match=r"bad.csv:62: 1 cell where the header has 2"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    found = CliRunner().invoke(app, [*command, "--skip-bad"], catch_exceptions=False)
    assert json.loads(found.stdout)["ended"] == "done"
    assert found.stderr.count("1 row left out") == 1  # the examples are tokenised once for all three
    assert re.search(r"^learning rate \S+ +accuracy .*validation loss \S+  \(best\)$", found.stderr, re.MULTILINE)
    assert (tmp_path / "run" / "search.json").is_file()
