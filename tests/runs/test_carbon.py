"""`qkv energy`: sums over runs, figures beside them, and when a student has paid for its training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import qkv
from qkv.cli.energy import footprint_table, payback_table
from qkv.common.errors import UsageError
from qkv.runs.carbon import REFERENCES, energy_of, footprint
from qkv.runs.payback import Answering, Payback, break_even, payback
from qkv.training.energy import Energy


def run(folder: Path, joules: float | None, *, grid: float = 480.0, seconds: float = 10.0) -> Path:
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text('task = "classify"\n')
    if joules is not None:
        report = Energy(seconds, {"cpu": joules}, {"cpu": "estimated at 20 W"}).report(grid)
        (folder / "energy.json").write_text(json.dumps(report))
    return folder


def test_energy_adds_up(tmp_path: Path) -> None:
    run(tmp_path / "a", 3.6e6, grid=480.0)
    run(tmp_path / "deep" / "b", 1.8e6, grid=100.0, seconds=5.0)
    run(tmp_path / "c", None)
    found = footprint([str(tmp_path)])
    assert [Path(one.folder).name for one in found.runs] == ["a", "b"]
    assert (found.kwh, found.seconds) == (pytest.approx(1.5), 15.0)
    assert found.co2_g == pytest.approx(1.0 * 480 + 0.5 * 100)
    assert [Path(one).name for one in found.unknown] == ["c"]
    assert footprint([str(tmp_path)], grid=50).co2_g == pytest.approx(75.0)
    table = footprint_table(found)
    assert "1.5 kWh" in table
    assert "530 g" in table
    assert "c has no energy.json and is not counted" in table


def test_the_figures_beside(tmp_path: Path) -> None:
    """The pounds of the paper's table, in kilograms: a flight is 0.9 tonnes, a car with its fuel 57."""
    grams = 1984 * 453.59237
    run(tmp_path / "a", grams / 480 * 3.6e6)
    found = footprint([str(tmp_path)])
    shares = found.shares()
    assert shares["a flight New York - San Francisco, one passenger"] == pytest.approx(1.0)
    assert shares["a car with its fuel, one lifetime"] == pytest.approx(1984 / 126_000)
    beside = {row["what"]: row["co2_kg"] for row in found.to_dict()["beside"]}
    assert beside["a car with its fuel, one lifetime"] == 57_152.6
    assert beside.keys() == REFERENCES.keys()


def test_runs_that_do_not_say(tmp_path: Path) -> None:
    run(tmp_path / "a", None)
    with pytest.raises(UsageError, match=r"holds no energy\.json"):
        footprint([str(tmp_path)])
    with pytest.raises(UsageError, match="--grid must be at least 0"):
        footprint([str(tmp_path)], grid=-1)
    (tmp_path / "a" / "energy.json").write_text('{"kwh": "much"}')
    assert energy_of(tmp_path / "a") is None


def test_the_pay_back_formula() -> None:
    assert break_even(1000.0, 3.0, 1.0) == 500.0
    assert break_even(1000.0, 1.0, 1.0) is None
    assert break_even(1000.0, 1.0, 2.0) is None
    assert break_even(0.0, 2.0, 1.0) == 0.0


@pytest.fixture
def pair(tmp_path: Path, bert_folder: Path) -> tuple[str, str]:
    """A teacher with a hundred times the work of its student, and the student's run."""
    torch.manual_seed(0)
    start = qkv.load(bert_folder, device="cpu")
    sizes = {"vocab_size": start.config.vocab_size, "device": "cpu"}
    for name, more in (("teacher", {"num_layers": 12, "dim": 256, "ff_dim": 1024}), ("student", {"num_layers": 1})):
        qkv.build("bert-tiny", **sizes, **more).save(tmp_path / name)
        (tmp_path / name / "tokenizer.json").write_bytes((bert_folder / "tokenizer.json").read_bytes())
        (tmp_path / name / "qkv_digests.json").unlink(missing_ok=True)
    report = Energy(1.0, {"cpu": 40.0}, {"cpu": "RAPL"}).report(480)
    (tmp_path / "student" / "energy.json").write_text(json.dumps(report))
    return str(tmp_path / "teacher"), str(tmp_path / "student")


def test_a_student_pays_back(pair: tuple[str, str]) -> None:
    teacher, student = pair
    found = payback(teacher, student, ["the dog runs"] * 8, watts=10.0, device="cpu")
    assert (found.verb, found.texts, found.training_joules) == ("embed", 8, pytest.approx(40.0))
    assert found.teacher.joules == pytest.approx(10 * found.teacher.seconds)
    assert found.answers == pytest.approx(40 / (found.teacher.joules - found.student.joules))
    assert found.teacher.seconds > found.student.seconds
    assert payback(teacher, student, ["a"], watts=10.0, training_kwh=1.0, device="cpu").training_joules == 3.6e6
    back = payback(student, teacher, ["the dog runs"] * 8, watts=10.0, training_kwh=0.1, device="cpu")
    assert back.answers is None
    assert "It never pays back" in payback_table(back)
    assert "10 W, as given" in payback_table(back)


def test_what_cannot_be_compared(pair: tuple[str, str]) -> None:
    teacher, student = pair
    with pytest.raises(UsageError, match=r"has no energy\.json: name the folder of its run, or give --training-kwh"):
        payback(student, teacher, ["a"], device="cpu")
    with pytest.raises(UsageError, match="are the same model"):
        payback(student, student, ["a"], device="cpu")
    with pytest.raises(UsageError, match="--watts must be at least 0"):
        payback(teacher, student, ["a"], watts=-1.0, device="cpu")


def test_the_text_of_a_pay_back() -> None:
    sides = Answering("big", 100, 0.2, 4.0), Answering("small", 10, 0.05, 1.0)
    told = payback_table(Payback(*sides, 3.6e5, "classify", 200, "cpu", "cpu: RAPL"))
    assert "Each answer saves 3 J, so it has paid for itself after 120,000 answers." in told
    assert "0.1 kWh" in told
