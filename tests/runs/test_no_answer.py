"""Readers that may say that there is no answer: learned from the data, written into the folder, used by default."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import qkv
from qkv.checkpoints.folder import read_folder
from qkv.cli.main import app
from qkv.data.config import DataConfig
from qkv.exams.evaluate import evaluate
from qkv.predict import Model
from qkv.tasks.answer import AnswerTask
from qkv.tasks.split import splitter, validation_examples
from tests.runs.killing import cut_off

WORDS = ["the", "sat", "on", "a", "mat", "run", ".", ",", "!"]
FAST: dict[str, Any] = {
    "optim.lr": 1e-2,
    "train.workers": 1,
    "train.tokens": 512,
    "train.save_every": 10_000,
    "train.validate_every": 0.5,
}


def made(count: int, seed: int, *, unanswerable: bool = True) -> list[dict[str, Any]]:
    """Ask for an animal, which is in the text or is not; one text in three is longer than a window."""
    draw, rows = random.Random(seed), []
    for number in range(count):
        words = draw.choices(WORDS, k=draw.choice([3, 5, 9]))
        place = draw.randrange(len(words))
        there = not unanswerable or draw.random() < 0.6
        words.insert(place, "cat" if there else "dog")
        start = sum(len(word) + 1 for word in words[:place])
        answers = {"text": ["cat"], "answer_start": [start]} if there else {"text": [], "answer_start": []}
        rows.append({"id": str(number), "question": "the cat", "context": " ".join(words), "answers": answers})
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def tune(folder: Path, **given: Any) -> tuple[Any, list[str]]:
    said: list[str] = []
    return qkv.finetune(folder, task="answer", device="cpu", say=said.append, **{**FAST, **given}), said


def config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


@pytest.fixture(scope="module")
def trained(bert_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run over questions some of which have no answer."""
    place = tmp_path_factory.mktemp("no-answer")
    _, said = tune(bert_folder, train=write(place / "train.jsonl", made(800, 1)), out=place / "run", epochs=4)
    return place / "run", said


def test_a_model_learns_to_say_nothing_and_its_folder_tells(trained: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, said = trained
    model = qkv.load(folder, device="cpu")
    assert (model.no_answer, config(folder)["no_answer"]) == (True, True)
    assert model.no_answer_threshold == config(folder)["no_answer_threshold"] != 0
    assert said[-1].endswith(f"of the best span by more than {model.no_answer_threshold:.2f}")
    rows = made(100, 2)
    found = model.answer([row["question"] for row in rows], [row["context"] for row in rows])
    right = [one.text == (row["answers"]["text"] or [""])[0] for one, row in zip(found, rows, strict=True)]
    assert sum(right) >= 97
    exact, f1 = evaluate(model, [write(tmp_path / "test.jsonl", rows)])
    assert exact.value == f1.value == sum(right) / 100
    assert min(exact.parts[kind] for kind in ("answerable", "unanswerable")) > 0.9
    always = model.answer([row["question"] for row in rows], [row["context"] for row in rows], no_answer=False)
    assert all(one.text for one in always)


def test_the_command_line_overrules_the_folder(trained: tuple[Path, list[str]]) -> None:
    folder, _ = trained
    for options, empty in (([], True), (["--always-answer"], False), (["--no-answer"], True)):
        asked = ["answer", str(folder), "the cat", "--context-text", "the dog sat", "--device", "cpu", *options]
        said = CliRunner().invoke(app, asked, catch_exceptions=False)
        assert said.exit_code == 0
        assert (said.stdout.split("\t")[0] == "") == empty


@pytest.fixture(scope="module")
def unsure(bert_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that has hardly begun to learn, and its validation file."""
    place = tmp_path_factory.mktemp("unsure")
    files = {"train": write(place / "a.jsonl", made(300, 1)), "valid": write(place / "b.jsonl", made(120, 2))}
    tune(bert_folder, out=place / "run", **files, **{"train.steps": 6, "train.patience": 1})
    return place / "run", files["valid"]


def test_the_threshold_is_the_best_one_in_validation(unsure: tuple[Path, str]) -> None:
    folder, valid = unsure
    chosen = qkv.load(folder, device="cpu").no_answer_threshold
    scores = {}
    for threshold in (chosen, *(step / 2 for step in range(-10, 11))):
        model = Model(replace(read_folder(folder), no_answer_threshold=threshold), device="cpu")
        scores[threshold] = evaluate(model, [valid])[1].value
    assert scores[chosen] == max(scores.values())
    assert scores[0.0] < scores[chosen]  # what the model says by itself is not the best
    assert scores[5.0] < scores[chosen]


def test_the_folder_of_the_best_validation_has_a_threshold_of_its_own(unsure: tuple[Path, str]) -> None:
    folder, _ = unsure
    assert config(folder / "best") == config(folder)  # with patience they are the same model
    assert config(folder)["no_answer_threshold"] != 0


def test_resuming_a_run_that_is_done_keeps_the_threshold(bert_folder: Path, tmp_path: Path) -> None:
    given = {"train": write(tmp_path / "a.jsonl", made(200, 1)), "out": tmp_path / "run", "data.held_out": 0.3}
    few = {"train.steps": 4, "train.keep_checkpoints": True}
    first, _ = tune(bert_folder, **given, **few)
    cut_off(tmp_path / "run")  # between the last step and the end
    again, said = tune(bert_folder, resume=True, **given, **few)
    assert "resumed from step 4" in said
    assert again.no_answer_threshold == first.no_answer_threshold != 0


def test_a_model_that_never_saw_such_a_question_always_answers(bert_folder: Path, tmp_path: Path) -> None:
    train = write(tmp_path / "a.jsonl", made(60, 1, unanswerable=False))
    rows = made(30, 2)
    valid = write(tmp_path / "b.jsonl", rows)
    model, said = tune(bert_folder, train=train, valid=valid, out=tmp_path / "run", **{"train.steps": 1})
    assert model.no_answer is False
    assert config(tmp_path / "run")["no_answer"] is False
    assert "no_answer_threshold" not in config(tmp_path / "run")
    assert not any("no answer" in line for line in said)
    exact, _ = model.evaluate(valid)
    assert exact.count == 30
    assert exact.parts["unanswerable"] == 0
    assert all(one.text for one in model.answer(["the cat"] * 30, [row["context"] for row in rows]))


def test_validation_of_one_kind_chooses_nothing(bert_folder: Path, tmp_path: Path) -> None:
    train = write(tmp_path / "a.jsonl", made(60, 1))
    valid = write(tmp_path / "b.jsonl", made(20, 2, unanswerable=False))
    model, said = tune(bert_folder, train=train, valid=valid, **{"train.steps": 1})
    assert (model.no_answer, model.no_answer_threshold) == (True, 0.0)
    assert said[-1] == "no-answer threshold not set: validation needs questions with and without an answer"


def test_no_context_of_validation_is_read_in_training(tmp_path: Path) -> None:
    rows = [row | {"question": f"{row['question']} {n}"} for row in made(200, 1) for n in range(3)]
    data = DataConfig(train=(write(tmp_path / "a.jsonl", rows),), held_out=0.2)
    task = AnswerTask.read({}, data)
    held = splitter(task)
    sides: dict[bool, set[str]] = {True: set(), False: set()}
    for example in task.examples(data.train):
        sides[held(example)].add(example.context)
    assert not sides[True] & sides[False]
    assert len(sides[True]) > 20
    assert {example.context for example in validation_examples(task)} == sides[True]
