"""Several tasks as text, from a pre-trained T5 to scores task by task; and a run that was cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv.data.phrasebook import phrasebook
from qkv.recipes.schema import change, read_recipe
from qkv.runs.run import run_recipe
from tests.runs.killing import cut_off

PAIRS = list(phrasebook(60, 5))
CHANGES: dict[str, Any] = {
    "data.mix": {"en-fr": {"files": "pairs.tsv"}, "tone": {"files": "tone*.tsv", "text": "body", "label": "kind"}},
    "objective.mix": {
        "en-fr": {"kind": "translate", "prefix": "to French: "},
        "tone": {"kind": "classify", "prefix": "tone: ", "labels": {"0": "low", "1": "high"}, "weight": 0.5},
    },
    "train.steps": 4,
    "train.tokens": 200,
    "train.workers": 1,
    "train.validate_every": 4,
    "data.held_out": 0.1,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files, and a T5 that was pre-trained on them for a few steps."""
    place = tmp_path_factory.mktemp("text")
    (place / "text.txt").write_text("\n".join(text for pair in PAIRS for text in pair) + "\n")
    rows = [f"{a}\t{b}" for a, b in PAIRS]
    (place / "pairs.tsv").write_text("\n".join(["source\ttarget", *rows]) + "\n")
    rows = [f"x\t{a}\t{int(len(a) > 30)}" for a, _ in PAIRS]
    (place / "tone.tsv").write_text("\n".join(["title\tbody\tkind", *rows]) + "\n")
    (place / "tone-test.tsv").write_text("\n".join(["title\tbody\tkind", *rows[:20]]) + "\n")
    asked = [f"out={place / 't5'}", f"data.train={place / 'text.txt'}", "model.preset=t5-small", "train.workers=1"]
    run_recipe(read_recipe("pretrain-t5", asked, debug=True), device="cpu", say=lambda line: None)
    return place


def files(folder: Path) -> list[str]:
    return [str(folder / "pairs.tsv"), str(folder / "tone.tsv")]


def test_a_pretrained_t5_learns_several_tasks_and_is_scored_on_each(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    model = qkv.finetune(
        folder / "t5",
        train=files(folder),
        test=[str(folder / "tone-test.tsv")],
        task="text-to-text",
        out=tmp_path / "run",
        device="cpu",
        say=said.append,
        **CHANGES,
    )
    assert any("optim.lr=0.0048" in line for line in said)  # 4e-4 · 384 / 32
    assert {name: task.kind for name, task in model.text_tasks.items()} == {"en-fr": "translate", "tone": "classify"}
    kept = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert list(kept["scores"]) == ["average", "tone/accuracy", "tone/f1", "tone/matthews", "tone/invalid"]
    assert kept["scores"]["tone/accuracy"]["count"] == 20
    assert {"average", "en-fr/BLEU", "tone/accuracy", "tone/invalid"} <= kept["validation"].keys()
    assert "tone: accuracy" in (tmp_path / "run" / "report.html").read_text()
    again = qkv.load(tmp_path / "run", device="cpu")
    # The columns of this part are known from training.
    alone = {score.name: score.value for score in again.evaluate(folder / "tone-test.tsv", task="tone")}
    assert alone == {name: pytest.approx(kept["scores"][f"tone/{name}"]["value"]) for name in alone}
    with pytest.raises(qkv.UsageError, match=r"this model has 2 tasks: choose one"):
        again.evaluate(folder / "tone-test.tsv")
    before = qkv.load(folder / "t5", device="cpu").module.state_dict()
    after = again.module.state_dict()
    assert before.keys() == after.keys()
    assert not torch.equal(before["embeddings.token.weight"], after["embeddings.token.weight"])


def test_a_run_that_was_cut_off_ends_with_the_same_weights(folder: Path, tmp_path: Path) -> None:
    more = {"train.save_every": 2, "train.keep": 100, "train.keep_checkpoints": True, "model.init": str(folder / "t5")}
    recipe = change(read_recipe("text-to-text"), {**CHANGES, **more, "data.train": files(folder)})

    def run(name: str, *, resume: bool = False) -> dict[str, torch.Tensor]:
        mine = change(recipe, {"out": str(tmp_path / name)})
        run_recipe(mine, resume=resume, device="cpu", say=lambda line: None, report=False)
        return qkv.load(tmp_path / name, device="cpu").module.state_dict()

    whole = run("whole")
    run("cut")
    cut_off(tmp_path / "cut", 4)
    again = run("cut", resume=True)
    assert all(torch.equal(whole[name], again[name]) for name in whole)
