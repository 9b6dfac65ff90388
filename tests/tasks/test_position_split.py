"""A single text is split by position: its end is held out, nothing is lost, and scoring reads it whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.data.config import DataConfig
from qkv.data.documents import documents, split_single
from qkv.data.examples import Document
from qkv.recipes.schema import read_recipe
from qkv.runs.run import run_recipe
from qkv.tasks.split import held_out_words, splitter
from qkv.tasks.table import read_task

LINES = [f"Line {n} of the only text there is." for n in range(100)]


@given(st.text("ab \n", min_size=1, max_size=40), st.floats(0, 1))
def test_nothing_is_lost(text: str, share: float) -> None:
    parts = list(split_single(iter([Document(text, "x:1")]), share))
    assert "".join(part.text for part in parts) == text
    assert all(part.text for part in parts)
    assert [part.held_out for part in parts] in ([None], [False, True])


def test_the_last_lines_are_held_out(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    data = DataConfig(train=(str(tmp_path / "text.txt"),), unit="file", held_out=0.1)
    task = read_task("causal", {}, data)
    held = splitter(task)
    (train,), (valid,) = ([d for d in task.examples(data.train) if held(d) == side] for side in (False, True))
    assert valid.text.splitlines() == LINES[-10:]
    assert train.text.splitlines() == LINES[:-10]
    assert held_out_words(task) == "the last 10% of the text is"
    other = replace(task, data=replace(data, train=("other.txt",)))
    assert len(list(other.examples(data.train))) == 1  # another file is read whole
    assert len(list(read_task("causal", {}, replace(data, valid=data.train)).examples(data.train))) == 1


def test_several_documents_are_held_out_whole(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    task = read_task("causal", {}, DataConfig(train=(str(tmp_path / "text.txt"),), held_out=0.1))
    assert list(task.examples(task.data.train)) == list(documents(task.data.train))
    assert held_out_words(task) == "10% of the documents are"


@pytest.mark.parametrize("lines", [100, 3])
def test_a_single_file_trains(tmp_path: Path, lines: int) -> None:
    """Also where the end that is held out is shorter than a window."""
    (tmp_path / "text.txt").write_text("\n".join(LINES[:lines]))
    said: list[str] = []
    changes = [f"out={tmp_path / 'run'}", f"data.train={tmp_path / 'text.txt'}", "data.unit=file", "train.workers=1"]
    outcome: Any = run_recipe(read_recipe("pretrain-gpt", changes, debug=True), device="cpu", say=said.append)
    assert outcome.reason == "done"
    assert "no data.valid: the last 5% of the text is held out for validation" in said
    assert any("its window is that long, not 32" in line for line in said) == (lines == 3)
