"""`qkv train FOLDER --resume`, from any directory; and what a finished run keeps."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import qkv
from qkv.checkpoints.state import steps
from qkv.cli.main import app
from qkv.common.config import override, to_toml
from qkv.common.errors import QkvError, UsageError
from qkv.recipes.schema import read_recipe
from qkv.runs import run as module
from qkv.runs.layout import OUTCOME, read_table
from qkv.runs.paths import absolute
from qkv.runs.resume import Order, begun, carry_out
from qkv.training.threads import use_threads
from tests.runs.killing import CHANGES, cut_off, write_data

RELATIVE = ["data.train=[train.en,train.fr]", "data.valid=[./valid.en,valid.fr]", "out=runs/x"]
SMALL = [*CHANGES, "train.steps=4", *RELATIVE]


def start(*changes: str) -> tuple[Any, Any]:
    return carry_out(Order("phrasebook", [*SMALL, *changes], debug=True), device="cpu", say=lambda _: None)


def go_on(what: str | None, *changes: str) -> tuple[Any, Any, list[str]]:
    said: list[str] = []
    return *carry_out(Order(what, changes, resume=True), device="cpu", say=said.append), said


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished run that keeps its checkpoints."""
    place = tmp_path_factory.mktemp("kept")
    write_data(place)
    before = Path.cwd()
    os.chdir(place)
    try:
        start("train.keep_checkpoints=true")
    finally:
        os.chdir(before)
    return place


@pytest.fixture
def place(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that directory, which is the current one."""
    shutil.copytree(kept, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def cut(place: Path) -> Path:
    """The same, with a run that was cut off after two of its four steps."""
    cut_off(place / "runs" / "x", 4)
    recipe = absolute(override(read_recipe(str(place / "runs/x/recipe.toml")), dict(DATA)))
    (place / "runs/x/recipe.toml").write_text(to_toml(recipe))
    return place


DATA = {"data.train": ("train.en", "train.fr"), "data.valid": ("valid.en", "valid.fr")}


def test_a_run_goes_on_from_another_directory(cut: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cut.parent)
    recipe, outcome, said = go_on("work/runs/x")
    assert (recipe.out, outcome.reason, outcome.step) == ("work/runs/x", "done", 4)
    assert "resumed from step 2" in said
    assert (cut / "runs/x/model.safetensors").read_bytes() == (kept / "runs/x/model.safetensors").read_bytes()


@pytest.mark.parametrize("order", [Order(None, ["out=work/runs/x"]), Order("train.workers=0", ["out=work/runs/x"])])
def test_out_alone_names_the_run(cut: Path, monkeypatch: pytest.MonkeyPatch, order: Order) -> None:
    monkeypatch.chdir(cut.parent)
    _, outcome, _ = go_on(order.what, *order.changes)
    assert outcome.step == 4


def test_relative_paths_of_earlier_versions_start_where_the_run_began(
    cut: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = cut / "runs/x/recipe.toml"
    file.write_text(to_toml(override(read_recipe(str(file)), dict(DATA))))
    inputs = cut / "runs/x/inputs.json"
    inputs.unlink()
    monkeypatch.chdir("/")
    recipe, outcome, _ = go_on(str(cut / "runs/x"))
    assert recipe.data.train == (f"{cut}/train.en", f"{cut}/train.fr")
    assert outcome.step == 4


def test_a_directory_that_was_moved_still_resumes_by_name(cut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut.rename(cut.parent / "moved")
    monkeypatch.chdir(cut.parent / "moved")
    order = Order("phrasebook", [*SMALL, "train.keep_checkpoints=true"], resume=True, debug=True)
    assert carry_out(order, device="cpu", say=lambda _: None)[1].step == 4


def test_moved_files_must_hold_the_same(cut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut.rename(cut.parent / "moved")
    monkeypatch.chdir(cut.parent / "moved")
    Path("train.fr").write_text(Path("train.fr").read_text().replace("a", "b", 1))
    order = Order("phrasebook", [*SMALL, "train.keep_checkpoints=true"], resume=True, debug=True)
    with pytest.raises(UsageError, match="resume runs/x with the files it started with"):
        carry_out(order, device="cpu", say=lambda _: None)


def test_paths_that_are_names_stay_names() -> None:
    changes = ["data.train=[phrasebook:train:9]", "data.test=[hf:a/b]", "model.init=english", "model.preset="]
    recipe = absolute(read_recipe("phrasebook", changes), Path("/here"))
    assert (recipe.data.train, recipe.data.test) == (("phrasebook:train:9",), ("hf:a/b",))
    assert recipe.model.init == "english"
    mixed = read_recipe("phrasebook", ["data.mix.masked.files=[notes/*.txt,*.tsv]", "data.train=notes/*.txt"])
    found = absolute(mixed, Path("/here"))
    assert found.data.mix["masked"]["files"] == ["/here/notes/*.txt", "*.tsv"]
    assert found.data.train == ("/here/notes/*.txt",)


def test_a_finished_run_says_so_and_needs_no_data(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "train.en").unlink()
    _, outcome, said = go_on("runs/x")
    assert (outcome.reason, outcome.step) == ("done", 4)
    assert said == ["runs/x is finished: there is nothing to resume"]
    assert steps(place / "runs/x/checkpoints")  # its recipe keeps them


def test_a_finished_run_keeps_no_optimizer_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    start("train.patience=0", "train.average_last=2")
    run = tmp_path / "runs/x"
    assert not (run / "checkpoints").exists()
    assert read_table(run / OUTCOME)["step"] == 4
    before = (run / "model.safetensors").read_bytes()
    again = Order("phrasebook", [*SMALL, "train.patience=0", "train.average_last=2"], resume=True, debug=True)
    said: list[str] = []
    assert carry_out(again, device="cpu", say=said.append)[1].reason == "done"
    assert said == ["runs/x is finished: there is nothing to resume"]
    assert (run / "model.safetensors").read_bytes() == before


def test_a_kill_before_the_checkpoints_are_removed(place: Path) -> None:
    """The next --resume removes them."""
    go_on("runs/x", "train.keep_checkpoints=false")
    assert not (place / "runs/x/checkpoints").exists()


def test_a_finished_run_without_its_model_is_not_finished(place: Path) -> None:
    before = (place / "runs/x/model.safetensors").read_bytes()
    (place / "runs/x/model.safetensors").unlink()
    go_on("runs/x")
    assert (place / "runs/x/model.safetensors").read_bytes() == before


def test_why_a_run_failed_is_kept(cut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise QkvError("the loss is not finite")

    monkeypatch.setattr(module, "train", fail)
    with pytest.raises(QkvError, match="not finite"):
        go_on("runs/x")
    assert read_table(cut / "runs/x" / OUTCOME) == {
        "reason": "failed",
        "error": "the loss is not finite",
        "finished": False,
    }
    monkeypatch.undo()
    monkeypatch.chdir(cut)
    go_on("runs/x")
    assert read_table(cut / "runs/x" / OUTCOME)["reason"] == "done"


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Order("empty", resume=True), "empty holds no run: name the folder of a run"),
        (Order("runs/y", resume=True), "runs/y is not a folder"),
        (Order("runs/x"), "runs/x is the folder of a run: add --resume"),
        (Order(None), "name a recipe"),
        (Order(None, resume=True), "name a recipe"),
        (Order(None, ["out=runs/x"]), "name a recipe"),
        (Order("runs/x", ["train.steps=9"], resume=True), r"differs from this recipe \(it has 'steps = 4'"),
    ],
    ids=["no run", "no folder", "no resume", "nothing", "resume alone", "out alone", "another recipe"],
)
def test_wrong_orders(place: Path, order: Order, message: str) -> None:
    (place / "empty").mkdir()
    with pytest.raises(UsageError, match=message):
        carry_out(order, device="cpu", say=lambda _: None)


def test_from_python(cut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    said: list[str] = []
    outcome = qkv.train(cut / "runs/x", resume=True, changes={"train.workers": 1}, device="cpu", say=said.append)
    assert (outcome.step, "resumed from step 2" in said) == (4, True)


def test_the_command(place: Path) -> None:
    found = CliRunner().invoke(app, ["train", "runs/x", "--resume", "--json"], catch_exceptions=False)
    assert found.exit_code == 0
    assert json.loads(found.stdout)["ended"] == "done"
    assert "runs/x is finished: there is nothing to resume" in found.stderr


def test_a_search_goes_on_as_a_search(place: Path) -> None:
    shutil.move("runs/x/recipe.toml", "runs/x/search.toml")
    found = begun("runs/x")
    assert found.searches
    assert found.outcome is None  # the search itself tells


def test_an_outcome_that_cannot_be_read_is_none(place: Path) -> None:
    (place / "runs/x" / OUTCOME).write_text("{")
    assert begun("runs/x").outcome is None


def test_threads_are_set_and_given_back() -> None:
    import torch

    before = torch.get_num_threads()
    with use_threads(3):
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before
    with pytest.raises(UsageError, match=r"train\.threads must be at least 0 and below 257, got 1000"):
        read_recipe("phrasebook", ["train.threads=1000"])
