"""Held-out examples: by source, by context, by document, class by class; never on both sides."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from qkv.data.config import DataConfig
from qkv.tasks.base import Task
from qkv.tasks.masked import MaskedTask
from qkv.tasks.mixture import MixtureTask
from qkv.tasks.split import splitter
from qkv.tasks.table import TASKS, read_task


def sides(task: Task) -> tuple[list[Any], list[Any]]:
    held = splitter(task)
    found = list(task.examples(task.data.train))
    return [example for example in found if not held(example)], [example for example in found if held(example)]


def test_a_source_of_validation_is_not_trained_with_another_target(tmp_path: Path) -> None:
    rows = [f"Sentence {n % 60}.\tphrase {n}" for n in range(240)]
    (tmp_path / "pairs.tsv").write_text("\n".join(["source\ttarget", *rows]) + "\n")
    train, valid = sides(read_task("translate", {}, DataConfig(train=(str(tmp_path / "pairs.tsv"),), held_out=0.2)))
    assert len(valid) > 10
    assert not {example.source for example in train} & {example.source for example in valid}


def test_pairs_of_sentences_are_held_out_by_document(tmp_path: Path) -> None:
    blocks = [" ".join(f"Document {n} has sentence {i}." for i in range(40)) for n in range(60)]
    (tmp_path / "text.txt").write_text("\n".join(blocks) + "\n")
    task = read_task("masked", {"pairs": True}, DataConfig(train=(str(tmp_path / "text.txt"),), held_out=0.2))
    assert isinstance(task, MaskedTask)
    train, valid = sides(task)
    assert len(train) + len(valid) == 60  # whole documents
    assert valid


def test_each_class_of_a_mixture_has_its_share(tmp_path: Path) -> None:
    rows = [f"text {n}\t{'rare' if n % 25 == 0 else 'usual'}" for n in range(200)]
    (tmp_path / "table.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    (tmp_path / "notes.txt").write_text("some words\n" * 3)
    data = DataConfig(
        train=(str(tmp_path / "table.tsv"), str(tmp_path / "notes.txt")),
        held_out=0.25,
        mix={"classify": {"files": "*.tsv"}, "masked": {"files": "*.txt"}},
    )
    mixed = MixtureTask.read({"mix": {"classify": {"weight": 1}, "masked": {"weight": 1}}}, data)
    _, valid = sides(mixed.parts()["classify"])
    assert Counter(example.labels[0] for example in valid) == {"usual": 48, "rare": 2}


def test_a_text_that_comes_twice_stays_on_one_side(tmp_path: Path) -> None:
    rows = [f"text {n % 50}\t{'even' if n % 50 % 2 == 0 else 'odd'}" for n in range(150)]
    (tmp_path / "table.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    train, valid = sides(read_task("classify", {}, DataConfig(train=(str(tmp_path / "table.tsv"),), held_out=0.2)))
    assert valid
    assert not {example.text for example in train} & {example.text for example in valid}


@pytest.mark.parametrize("name", [name for name in TASKS if name != "mixture"])
def test_every_task_names_what_it_holds_out(name: str) -> None:
    assert TASKS[name].held_out_unit
    assert TASKS[name].key is not Task.key


def test_questions_of_one_context_stay_together(tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "question": f"What is {n}?", "context": f"Context {n % 40}.", "answers": []} for n in range(160)
    ]
    file = tmp_path / "q.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    train, valid = sides(read_task("answer", {}, DataConfig(train=(str(file),), held_out=0.2)))
    assert valid
    assert not {example.context for example in train} & {example.context for example in valid}
