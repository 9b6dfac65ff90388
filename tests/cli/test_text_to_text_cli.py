"""Models with text-to-text tasks on the command line: which task is meant, and what is said if none can be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qkv.checkpoints.text_tasks import TextTask
from qkv.predict import Model
from tests.predict.conftest import make_translator

TASKS = {
    "en-fr": TextTask(kind="translate", prefix="to French: "),
    "tone": TextTask(kind="classify", prefix="tone: ", labels={"0": "bad", "1": "good"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("text") / "t5"
    Model(replace(make_translator("t5-small").contents, text_tasks=TASKS), device="cpu").save(place)
    return place


def test_translate_takes_a_task_or_a_prefix(shell: Any, folder: Path) -> None:
    options = ("--beam", "1", "--max-length", "6", "--device", "cpu")
    usual = shell("translate", folder, "The cat.", *options)
    assert usual.code == 0
    assert shell("translate", folder, "The cat.", "--task", "en-fr", *options).out == usual.out
    assert shell("translate", folder, "The cat.", "--source-prefix", "to French: ", *options).out == usual.out
    other = shell("translate", folder, "The cat.", "--task", "tone", *options).out
    assert shell("translate", folder, "-", "--source-prefix", "tone: ", *options, stdin="The cat.\n").out == other
    wrong = shell("translate", folder, "The cat.", "--task", "tune", *options)
    assert (wrong.code, wrong.out) == (2, "")
    assert "unknown text-to-text task of this model 'tune'; did you mean 'tone'? (allowed: en-fr, tone)" in wrong.err


def test_evaluate_scores_the_named_task(shell: Any, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("text\tlabel\nthe cat\t0\nthe dog\t1\n")
    scored = shell("evaluate", folder, tmp_path / "t.tsv", "--task", "tone", "--json", "--confusion", "--device", "cpu")
    found = json.loads(scored.out)
    assert list(found) == ["accuracy", "f1", "matthews", "invalid", "confusion", "classes"]
    assert found["accuracy"]["count"] == found["invalid"]["count"] == 2
    (tmp_path / "p.tsv").write_text("source\ttarget\nthe cat\tle chat\n")
    assert shell("evaluate", folder, tmp_path / "p.tsv", "--task", "en-fr", "--beam", "1").out.count("BLEU") == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "this model has 2 tasks: choose one with --task (task=…), of: en-fr, tone"),
        (("--task", "tune"), "unknown text-to-text task of this model 'tune'; did you mean 'tone'?"),
        (("--task", "en-fr", "--confusion"), "predicts no classes: leave out --confusion, or use --errors"),
        (("--task", "tone", "--set", "data.label=kind"), "'kind' (allowed: text, label)"),
    ],
)
def test_evaluate_says_which_task_is_missing(
    shell: Any, folder: Path, tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    (tmp_path / "t.tsv").write_text("text\tlabel\nthe cat\t0\nthe dog\t1\n")
    result = shell("evaluate", folder, tmp_path / "t.tsv", *options)
    assert (result.code, result.out) == (2, "")
    assert says in result.err


def test_a_task_is_for_models_that_have_some(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("source\ttarget\nthe cat\tle chat\n")
    result = shell("evaluate", "en-de", tmp_path / "p.tsv", "--task", "x")
    assert (result.code, result.out) == (2, "")
    assert "a task is for text-to-text models, and this transformer is not one: leave out 'x'" in result.err


def test_info_lists_the_tasks(shell: Any, folder: Path) -> None:
    assert "tasks               en-fr ('to French: '), tone ('tone: ')" in shell("info", folder).out
    assert json.loads(shell("info", folder, "--json").out)["tasks"] == {"en-fr": "to French: ", "tone": "tone: "}
