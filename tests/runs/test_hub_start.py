"""Runs that start from a model on the Hub: recipe.toml names the commit, and a resumed run keeps it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import qkv
from qkv.checkpoints.hub import pinned
from qkv.checkpoints.weights import WHOLE
from qkv.common.errors import UsageError
from qkv.recipes.check import check
from qkv.recipes.schema import read_recipe
from qkv.runs.glue import glue
from qkv.runs.run import run_recipe
from qkv.runs.search import search
from tests.hub_server import HubServer

NAME = "hf:ann/tiny"


@pytest.fixture
def start(hub: HubServer, bert_folder: Path) -> str:
    """A model on the Hub, by its commit."""
    return f"{NAME}@{hub.add('ann/tiny', bert_folder)}"


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    draw = random.Random(0)
    rows = [f"{' '.join(draw.choices(['the', 'cat', 'dog', 'mat'], k=6))} {n},{'ab'[n % 2]}" for n in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    return tmp_path / "t.csv"


def recipe(reviews: Path, *changes: str) -> Any:
    given = [
        f"data.train={reviews}",
        f"out={reviews.parent / 'run'}",
        f"model.init={NAME}",
        "train.workers=0",
        *changes,
    ]
    return read_recipe("classify", given, debug=True)


def run(asked: Any, **given: Any) -> list[str]:
    said: list[str] = []
    run_recipe(asked, device="cpu", say=said.append, **given)
    return said


def move(hub: HubServer, folder: Path, place: Path) -> str:
    """Let the branch point to a commit with other weights."""
    shutil.copytree(folder, place)
    save_file({key: tensor + 1 for key, tensor in load_file(folder / WHOLE).items()}, place / WHOLE)
    return f"{NAME}@{hub.add('ann/tiny', place)}"


def kept(out: Path, name: str = "recipe.toml") -> str:
    return read_recipe(str(out / name)).model.init


def test_the_commit_is_written_and_used_again(
    hub: HubServer, start: str, reviews: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is stopped, the branch moves, the network goes: the resumed run is the one that was not stopped."""
    said = run(recipe(reviews, "train.steps=2", f"out={tmp_path / 'whole'}"))
    assert said[0] == f"{NAME} is at commit {start.partition('@')[2]}"
    assert kept(tmp_path / "whole") == start
    assert qkv.load(tmp_path / "whole", device="cpu").labels == ("a", "b")

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    asked = recipe(reviews, "train.steps=2")
    with monkeypatch.context() as patch:
        patch.setattr("qkv.runs.run.train", stop)
        with pytest.raises(KeyboardInterrupt):
            run(asked)
    assert pinned(NAME) == start
    assert move(hub, bert_folder, tmp_path / "moved") == pinned(NAME) != start
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    run(asked, resume=True)
    assert kept(tmp_path / "run") == start
    ours, theirs = load_file(tmp_path / "run" / WHOLE), load_file(tmp_path / "whole" / WHOLE)
    assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)


def test_another_commit_is_another_run(
    hub: HubServer, start: str, reviews: Path, bert_folder: Path, tmp_path: Path
) -> None:
    run(recipe(reviews, "train.steps=1"))
    moved = move(hub, bert_folder, tmp_path / "moved")
    with pytest.raises(UsageError, match=f"it has .*{start}.*, this one has .*{moved}"):
        run(recipe(reviews, "train.steps=1", f"model.init={NAME}@main"), resume=True)
    run(recipe(reviews, "train.steps=1", f"model.init={start}"), resume=True)


def test_a_run_that_cannot_start_leaves_no_folder(hub: HubServer, reviews: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="hf:ann/tiny does not exist at"):
        run(recipe(reviews))
    assert not (tmp_path / "run").exists()


def test_a_bad_name_is_found_before_anything_is_asked(hub: HubServer, reviews: Path) -> None:
    with pytest.raises(UsageError, match="names no model: write hf:OWNER"):
        check(recipe(reviews, "model.init=hf:ann/tiny@"))
    assert hub.requests == 0


def test_a_search_starts_each_run_from_one_commit(
    hub: HubServer, start: str, reviews: Path, bert_folder: Path, tmp_path: Path
) -> None:
    asked = recipe(reviews, "train.steps=1")
    search(asked, device="cpu", say=lambda _: None)
    assert kept(tmp_path / "run") == kept(tmp_path / "run", "search.toml") == start
    move(hub, bert_folder, tmp_path / "moved")
    search(asked, resume=True, device="cpu", say=lambda _: None)
    assert kept(tmp_path / "run") == start


def test_finetune(start: str, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    given: dict[str, Any] = {"train.steps": 1, "train.workers": 0}
    model = qkv.finetune(NAME, train=reviews, out=out, device="cpu", say=lambda _: None, **given)
    assert model.labels == ("a", "b")
    assert kept(out) == start


def test_glue_writes_the_commit_beside_the_scores(start: str, tmp_path: Path) -> None:
    (tmp_path / "data" / "SST-2").mkdir(parents=True)
    rows = [f"the cat {number} sat\t{number % 2}" for number in range(20)]
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / "data" / "SST-2" / name).write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    changes = {"train.steps": 1, "train.workers": 0}
    told: Any = {"changes": changes, "out": str(tmp_path / "out"), "device": "cpu", "say": lambda _: None}
    assert glue(str(tmp_path / "data"), NAME, **told)["model"] == start
    assert kept(tmp_path / "out" / "SST-2-1") == start
