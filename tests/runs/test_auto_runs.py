"""Runs whose values follow from the data, and the weights that they end with."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv
from qkv.common.errors import UsageError
from qkv.recipes.schema import read_recipe
from qkv.runs.run import run_recipe
from qkv.tasks.classify import balanced
from qkv.training.loop import Outcome
from tests.runs.test_finetune import texts, write

SMALL = ["train.steps=8", "train.tokens=64", "train.workers=1", "optim.lr=0.004", "train.validate_every=2"]


def go(name: str, *changes: str, resume: bool = False) -> tuple[Outcome, list[str]]:
    said: list[str] = []
    return run_recipe(read_recipe(name, changes), resume=resume, device="cpu", say=said.append), said


def lines(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if "valid_loss" in line]


def numbers(path: Path, count: int = 80) -> str:
    rows = [f"{text},{1000 + 20 * ('cat' in text)}" for text in texts(count, 1) if "," not in text]
    path.write_text("\n".join(["text,stars", *rows]) + "\n")
    return str(path)


def test_values_are_said_written_and_kept_on_resume(bert_folder: Path, tmp_path: Path) -> None:
    train = write(tmp_path / "a.csv", 60, 1)
    given = [f"model.init={bert_folder}", f"data.train=[{train}]", f"out={tmp_path / 'run'}", "train.epochs=1"]
    _, said = go("classify", *given)
    written = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())
    assert "auto" not in (tmp_path / "run" / "recipe.toml").read_text().replace('"auto"', "")
    assert "auto" not in written
    assert f"optim.lr={written['optim']['lr']:g}" in said[0]
    assert written["train"]["epochs"] == 1.0
    _, again = go("classify", *given, resume=True)  # measures nothing: the values are those of the run
    assert not [line for line in again if line.startswith("60 examples")]


def test_the_closing_scores_are_those_of_the_folder(bert_folder: Path, tmp_path: Path) -> None:
    """The metric of each validation is the one of `evaluate` on the same file, and the best one decides."""
    train, valid = write(tmp_path / "a.csv", 80, 1), write(tmp_path / "b.csv", 40, 2)
    given = [f"model.init={bert_folder}", f"data.train=[{train}]", f"data.valid=[{valid}]", *SMALL]
    for keep in ("true", "false"):
        folder = tmp_path / keep
        outcome, _ = go("classify", *given, f"out={folder}", f"train.keep_best={keep}")
        found = lines(folder)
        best = max(found, key=lambda line: (line["valid_accuracy"], -line["valid_loss"]))
        ended = best if keep == "true" else found[-1]
        assert outcome.weights_of == ended["step"]
        assert outcome.scores is not None
        assert outcome.scores["accuracy"] == ended["valid_accuracy"]
        assert outcome.scores["loss"] == ended["valid_loss"]
        (accuracy, *_) = qkv.finetune.__globals__["evaluate"](qkv.load(folder, device="cpu"), [valid])
        assert accuracy.value == pytest.approx(ended["valid_accuracy"])


def test_numbers_are_learned_on_their_own_scale(bert_folder: Path, tmp_path: Path) -> None:
    train = numbers(tmp_path / "a.csv")
    given = [f"model.init={bert_folder}", f"data.train=[{train}]", f"data.valid=[{train}]", f"out={tmp_path / 'run'}"]
    outcome, _ = go("regress", *given, *SMALL, "train.steps=120", "train.validate_every=60")
    model = qkv.load(tmp_path / "run", device="cpu")
    found = np.array(model.classify(["the dog sat on a mat", "the cat sat on a mat"]))
    assert ((found > 980) & (found < 1040)).all()
    assert found[1] - found[0] > 5
    assert outcome.scores is not None
    assert outcome.scores["loss"] < 0.5  # of the variance
    again, _ = go(
        "regress", f"model.init={tmp_path / 'run'}", f"data.train=[{train}]", f"data.valid=[{train}]",
        f"out={tmp_path / 'two'}", *SMALL, "train.steps=1", "optim.lr=1e-9",
    )  # fmt: skip
    assert again.scores is not None
    assert again.scores["pearson"] == pytest.approx(outcome.scores["pearson"], abs=1e-3)
    assert again.scores["mse"] == pytest.approx(outcome.scores["mse"], rel=1e-2)


def test_one_number_for_all_rows_is_said(bert_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,stars\n" + "a film,3\nb film,3\n" * 20)
    given = [f"model.init={bert_folder}", f"data.train=[{tmp_path}/a.csv]", f"out={tmp_path / 'run'}"]
    _, said = go("regress", *given, *SMALL, "train.steps=1")
    assert "all 40 rows have the number 3, so there is nothing to learn; is data.label right?" in said
    assert abs(qkv.load(tmp_path / "run", device="cpu").classify(["the cat"])[0] - 3) < 1


def test_rare_classes_count_more() -> None:
    weights = balanced([90, 10])
    assert weights[1] / weights[0] == pytest.approx(3)
    assert (90 * weights[0] + 10 * weights[1]) / 100 == pytest.approx(1)


def test_class_weights_scale_the_loss_of_each_class() -> None:
    from qkv.objectives.entropy import cross_entropy

    logits, wanted = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, -100, 1])
    weights = (1.0, 0.5, 2.0)
    oracle = torch.nn.functional.cross_entropy(logits, wanted, torch.tensor(weights), reduction="sum")
    found = cross_entropy(logits, wanted, class_weights=weights)
    torch.testing.assert_close(found.total, oracle)
    assert found.count == 5


def test_a_wrong_number_of_class_weights_is_refused(bert_folder: Path, tmp_path: Path) -> None:
    train = write(tmp_path / "a.csv", 60, 1)
    given = [f"model.init={bert_folder}", f"data.train=[{train}]", f"out={tmp_path / 'run'}", *SMALL]
    with pytest.raises(UsageError, match=r"objective\.class_weights has 3 numbers, but there are 2 classes"):
        go("classify", *given, "objective.class_weights=[1,2,3]")


def test_a_run_that_learned_nothing_says_so(bert_folder: Path, tmp_path: Path) -> None:
    train = write(tmp_path / "a.csv", 60, 1)
    given = [f"model.init={bert_folder}", f"data.train=[{train}]", *SMALL, "train.steps=1", "optim.lr=1e-9"]
    _, said = go("classify", *given, f"out={tmp_path / 'run'}")
    assert any(line.startswith("the model has learned nothing useful: on the validation set its acc") for line in said)
    _, said = go("regress", f"model.init={bert_folder}", f"data.train=[{numbers(tmp_path / 'n.csv')}]",
                 *SMALL, "train.steps=1", "optim.lr=1e-9",
                 f"data.valid=[{tmp_path}/n.csv]", f"out={tmp_path / 'r'}")  # fmt: skip
    assert any("'always the mean, " in line for line in said)
