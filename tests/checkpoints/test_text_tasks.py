"""The text-to-text tasks of a model folder: read, chosen, written back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import qkv
from qkv.checkpoints.text_tasks import KEY, KINDS, TextTask, chosen_task, read_text_tasks, text_tasks_json
from qkv.common.errors import QkvError, UsageError

# A part of the config.json of google-t5/t5-small.
THEIRS = {
    "summarization": {"early_stopping": True, "num_beams": 4, "prefix": "summarize: "},
    "translation_en_to_de": {"max_length": 300, "num_beams": 4, "prefix": "translate English to German: "},
    "translation_en_to_fr": {"max_length": 300, "num_beams": 4, "prefix": "translate English to French: "},
}
TINY = {
    "vocab_size": 40,
    "dim": 16,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "num_heads": 2,
    "head_dim": 8,
    "ff_dim": 8,
}
TEXT = st.text(max_size=8)
NUMBER = st.floats(-9, 9)
TASKS = st.builds(
    TextTask,
    kind=st.sampled_from(("", *KINDS)),
    prefix=TEXT,
    between=TEXT,
    labels=st.dictionaries(TEXT, TEXT, max_size=3),
    step=NUMBER,
    low=NUMBER,
    high=NUMBER,
    others=st.dictionaries(st.sampled_from(["num_beams", "max_length"]), st.integers(1, 9)),
)


def test_tasks_of_another_library_are_kept_with_all_their_keys(tmp_path: Path) -> None:
    qkv.build("t5-small", **TINY, device="cpu").save(tmp_path / "t5")
    file = tmp_path / "t5" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {KEY: THEIRS}))
    model = qkv.load(tmp_path / "t5", device="cpu", verify=False)
    assert {name: task.kind for name, task in model.text_tasks.items()} == {
        "summarization": "",
        "translation_en_to_de": "translate",
        "translation_en_to_fr": "translate",
    }
    model.save(tmp_path / "again")
    again = json.loads((tmp_path / "again" / "config.json").read_text())[KEY]
    assert {name: {key: task[key] for key in THEIRS[name]} for name, task in again.items()} == THEIRS
    assert model.describe()["tasks"]["translation_en_to_de"] == "translate English to German: "


def test_folders_without_tasks_say_nothing_of_them(tmp_path: Path) -> None:
    qkv.build("t5-small", **TINY, device="cpu").save(tmp_path / "t5")
    assert KEY not in json.loads((tmp_path / "t5" / "config.json").read_text())
    assert read_text_tasks({KEY: None}) == {}


@given(st.dictionaries(st.sampled_from(["a", "b", "translation_x"]), TASKS))
def test_what_is_written_is_read(tasks: dict[str, TextTask]) -> None:
    found = read_text_tasks(json.loads(json.dumps(text_tasks_json(tasks))))
    named = {  # the name of a task says that it translates, unless the folder says something else
        name: TextTask(**{**vars(task), "kind": "translate"}) if name == "translation_x" and not task.kind else task
        for name, task in tasks.items()
    }
    assert found == named


def test_a_source_is_the_prefix_and_the_texts() -> None:
    task = TextTask(prefix="mrpc sentence1: ", between=" sentence2: ")
    assert task.source(["A b.", "C."]) == "mrpc sentence1: A b. sentence2: C."
    assert task.source(["A b."]) == "mrpc sentence1: A b."


def test_the_only_task_of_a_kind_is_the_default() -> None:
    tasks = {"a": TextTask(kind="classify"), "b": TextTask(kind="translate"), "c": TextTask(kind="classify")}
    assert chosen_task(tasks, None, "translate") == "b"
    assert chosen_task(tasks, "c") == "c"
    assert chosen_task({"a": tasks["a"], "other": TextTask()}, None) == "a"
    with pytest.raises(UsageError, match=r"this model has 3 tasks: choose one with --task \(task=…\), of: a, b, c"):
        chosen_task(tasks, None)
    with pytest.raises(UsageError, match=r"has 2 tasks to classify: choose one .* of: a, c"):
        chosen_task(tasks, None, "classify")
    with pytest.raises(UsageError, match=r"has no tasks to regress: choose one .* of: a, b, c"):
        chosen_task(tasks, None, "regress")
    with pytest.raises(UsageError, match=r"unknown text-to-text task of this model 'd' \(allowed: a, b, c\)"):
        chosen_task(tasks, "d")
    with pytest.raises(UsageError, match="this model has no text-to-text tasks: leave out the task 'd'"):
        chosen_task({}, "d")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ([], ""),
        (["a"], "must be a table of tables, got"),
        ({"a": 1}, "must be a table of tables, got"),
        ({"a": {"prefix": 3}}, "prefix of a must be a string, got 3"),
        ({"a": {"kind": "sing"}}, "unknown kind of the task a 'sing'"),
        ({"a": {"low": float("nan")}}, "low of a must be a finite number, got nan"),
        ({"a": {"step": True}}, "step of a must be a finite number, got True"),
        ({"a": {"labels": {"0": 1}}}, "labels of a must map labels to answers"),
    ],
)
def test_what_cannot_be_a_task_is_said(raw: Any, says: str) -> None:
    if not says:
        assert read_text_tasks({KEY: raw}) == {}
        return
    with pytest.raises(UsageError, match=says):
        read_text_tasks({KEY: raw})


def test_a_damaged_folder_is_one_sentence(tmp_path: Path) -> None:
    qkv.build("t5-small", **TINY, device="cpu").save(tmp_path / "t5")
    file = tmp_path / "t5" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {KEY: {"a": 1}}))
    with pytest.raises(QkvError, match=r"config\.json is invalid: task_specific_params must be a table of tables"):
        qkv.load(tmp_path / "t5", verify=False)
