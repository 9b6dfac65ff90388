"""`qkv runs`: what the files of a run tell, and two runs side by side."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from qkv.cli.main import app
from qkv.common.errors import UsageError
from qkv.runs.compare import Scale, curves, differences
from qkv.runs.history import find_runs, summary_of
from qkv.runs.layout import LOCK, is_running
from tests.runs.test_finetune import tune, write

LINES = [{"step": 10, "loss": 0.9}, {"step": 10, "valid_loss": 0.8, "valid_mlm": 0.8, "valid_mlm.correct": 0.3}]
LINES += [{"step": 20, "loss": 0.7}, {"step": 20, "valid_loss": 0.6, "valid_mlm": 0.6, "valid_mlm.correct": 0.5}]
LINES += [{"step": 30, "loss": 0.5}, {"step": 30, "valid_loss": 0.7, "valid_mlm": 0.7, "valid_mlm.correct": 0.4}]


def make(folder: Path, *, lr: float = 0.1, **files: Any) -> Path:
    """Write the files of a run: its recipe, its metrics, and others by name."""
    folder.mkdir(parents=True)
    recipe = f'task = "masked"\nout = "{folder}"\n[model]\npreset = "bert-tiny"\n[optim]\nlr = {lr}\n'
    (folder / "recipe.toml").write_text(recipe)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def shell(*arguments: object) -> str:
    found = CliRunner().invoke(app, ["runs", *map(str, arguments)], catch_exceptions=False)
    assert found.exit_code == 0
    return found.stdout


def test_a_finished_run(tmp_path: Path) -> None:
    scores = {"scores": {"F1": {"value": 0.75, "low": 0.7}, "odd": 3}}
    energy = {"seconds": 3725.2, "kwh": 0.0123}
    run = make(tmp_path / "a", outcome={"reason": "done", "step": 30, "finished": True}, energy=energy, scores=scores)
    found = summary_of(run)
    assert (found.state, found.steps, found.task, found.model) == ("finished", 30, "masked", "bert-tiny")
    assert found.best == {"loss": 0.6, "mlm.correct": 0.5}  # each value once, where the loss was lowest
    assert found.test == {"F1": 0.75}
    line = shell(run).splitlines()[1]
    assert "loss 0.6000, mlm.correct 0.5000  F1 0.7500  1:02:05  0.012" in line
    assert json.loads(shell(run, "--json"))["seconds"] == 3725.2


def test_the_other_states(tmp_path: Path) -> None:
    failed = make(tmp_path / "failed", outcome={"reason": "failed", "error": "no finite loss", "finished": False})
    stopped = make(tmp_path / "stopped", outcome={"reason": "SIGINT", "step": 25, "finished": False})
    killed, old = make(tmp_path / "killed"), make(tmp_path / "old")
    (killed / "checkpoints" / "step-40").mkdir(parents=True)
    (old / "model.safetensors").touch()
    found = {run.name: (summary_of(run).state, summary_of(run).steps) for run in (failed, stopped, killed, old)}
    assert found == {
        "failed": ("failed", 30),
        "stopped": ("stopped", 25),
        "killed": ("stopped", 40),
        "old": ("finished", 30),  # written before there was an outcome.json
    }
    assert shell(tmp_path).splitlines()[2] == "  no finite loss"


def test_a_run_that_is_locked_is_running(tmp_path: Path) -> None:
    run = make(tmp_path / "a")
    with (run / LOCK).open("w") as lock:
        assert not is_running(run)  # left by a process that was killed
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert summary_of(run).state == "running"
    assert summary_of(run).state == "stopped"


def test_damaged_files_are_left_out(tmp_path: Path) -> None:
    run = make(tmp_path / "a")
    for name in ("outcome.json", "energy.json", "scores.json"):
        (run / name).write_text("{")
    (run / "metrics.jsonl").write_bytes(b'{"step": 1}\n\xff\xfe\n{"step"')
    found = summary_of(run)
    assert (found.state, found.steps, found.best, found.seconds) == ("stopped", 1, {}, None)
    (run / "recipe.toml").write_text("task = ")
    with pytest.raises(UsageError, match=r"recipe\.toml is not TOML"):
        summary_of(run)


def test_runs_are_found_below_a_folder_and_not_inside_a_run(tmp_path: Path) -> None:
    make(tmp_path / "b" / "deep")
    make(tmp_path / "a")
    make(tmp_path / "a" / "search-1x")
    (tmp_path / "c").mkdir()
    assert find_runs([str(tmp_path), str(tmp_path / "a")]) == [tmp_path / "a", tmp_path / "b" / "deep"]
    with pytest.raises(UsageError, match="c holds no run"):
        find_runs([str(tmp_path / "c")])
    with pytest.raises(UsageError, match="d is not a folder"):
        find_runs([str(tmp_path / "d")])


def test_settings_and_curves_side_by_side(tmp_path: Path) -> None:
    runs = [make(tmp_path / "a"), make(tmp_path / "b", lr=0.2)]
    assert differences(runs) == {"optim.lr": [0.1, 0.2]}
    assert list(curves(runs)) == ["valid_loss", "loss", "valid_mlm.correct"]  # valid_mlm is the loss again
    said = shell(*runs, "--compare")
    assert f"optim.lr  {'0.1':<{len(str(runs[0]))}}  0.2" in said
    assert "valid loss: 0.6000 to 0.8000, 30 steps" in said
    assert "last 0.7000, lowest 0.6000, highest 0.8000" in said
    found = json.loads(shell(*runs, "--compare", "--json"))
    assert found["curves"]["loss"] == [[[10, 0.9], [20, 0.7], [30, 0.5]]] * 2
    alone = CliRunner().invoke(app, ["runs", str(runs[0]), "--compare"])
    assert isinstance(alone.exception, UsageError)


def test_a_sparkline_shares_its_scale() -> None:
    curve, short = [(1, 8.0), (2, 4.0), (3, float("nan")), (4, 1.0)], [(2, 8.0)]
    scale = Scale.of([curve, short])
    assert scale == Scale(4, 1.0, 8.0)
    assert scale.sparkline(curve, 4) == "█▄▄▁"
    assert scale.sparkline(short, 4) == " █  "
    assert Scale.of([[(1, 2.0)]]).sparkline([(1, 2.0)], 3) == "  ▁"


def test_two_models_are_paired_on_the_same_data(bert_folder: Path, tmp_path: Path) -> None:
    train, test = write(tmp_path / "a.csv", 80, 1), write(tmp_path / "b.csv", 60, 2)
    for name, lr in (("a", 1e-9), ("b", 0.004)):
        tune(bert_folder, train=train, out=tmp_path / name, **{"train.steps": 12, "optim.lr": lr})
    found = json.loads(shell(tmp_path / "a", tmp_path / "b", "--data", test, "--json", "--device", "cpu"))
    accuracy = next(row for row in found["scores"] if row["name"] == "accuracy")
    (pair,) = accuracy["differences"]
    assert pair["value"] == pytest.approx(accuracy["values"][1] - accuracy["values"][0])
    assert pair["low"] <= pair["value"] <= pair["high"]
    assert 0 < pair["p"] <= 1
    assert "95% interval" in shell(tmp_path / "a", tmp_path / "b", "--data", test, "--device", "cpu")
