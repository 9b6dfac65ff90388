"""Classes said as often as training has them: `train.match_rates`."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv
from qkv.common.errors import UsageError
from qkv.recipes.schema import read_recipe
from qkv.runs.run import run_recipe

WORDS = ["the", "sat", "on", "a", "mat", "run", ".", ",", "!"]
TINY = "model.set={dim=32,num_layers=1,num_heads=2,ff_dim=64,max_length=64}"
FAST: dict[str, Any] = {"optim.lr": 1e-3, "train.workers": 0, "train.tokens": 256, "train.validate_every": 0.5}


def write(path: Path, number: int, seed: int) -> str:
    """Texts whose class is chance, three of four of them "yes"."""
    draw = random.Random(seed)
    rows = [(" ".join(draw.choices(WORDS, k=6)), draw.choice(["yes", "yes", "yes", "no"])) for _ in range(number)]
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return str(path)


@pytest.fixture(scope="module")
def trained(bert_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    place, said = tmp_path_factory.mktemp("rates"), list[str]()
    train, valid = write(place / "train.tsv", 200, 1), write(place / "valid.tsv", 120, 2)
    for name, match in (("plain", False), ("matched", True)):
        given = {**FAST, "train.match_rates": match, "valid": valid, "epochs": 2}
        out = str(place / name)
        qkv.finetune(bert_folder, task="classify", train=train, out=out, device="cpu", say=said.append, **given)
    return place / "plain", place / "matched", said


def shares(folder: Path, place: Path) -> float:
    texts = [line.split("\t")[0] for line in place.read_text().splitlines()[1:]]
    return float(np.mean([found.label == "yes" for found in qkv.load(folder).classify(texts)]))


def test_classes_are_said_as_often_as_in_training(trained: tuple[Path, Path, list[str]]) -> None:
    plain, matched, said = trained
    lines = (plain.parent / "train.tsv").read_text().splitlines()[1:]
    wanted = sum(line.endswith("yes") for line in lines) / len(lines)
    valid = plain.parent / "valid.tsv"
    assert shares(plain, valid) > wanted + 0.1
    for folder in (matched, matched / "best"):
        assert abs(shares(folder, valid) - wanted) < 0.02
    assert any(line.startswith("classes on validation texts: yes ") for line in said)


def test_only_biases_are_moved_and_transformers_says_the_same(trained: tuple[Path, Path, list[str]]) -> None:
    from transformers import AutoModelForSequenceClassification

    plain, matched, _ = trained
    one, other = (qkv.load(folder).module.state_dict() for folder in (plain, matched))
    assert {name for name in one if not one[name].equal(other[name])} == {"heads.classify.linear.bias"}
    model, peer = qkv.load(matched), AutoModelForSequenceClassification.from_pretrained(matched).eval()
    ids = [[2, 5, 6, 7, 3], [2, 8, 3]]
    with torch.no_grad():
        theirs = [peer(input_ids=torch.tensor([row])).logits[0] for row in ids]
    torch.testing.assert_close(
        torch.stack(model.logits(ids, head="classify")), torch.stack(theirs), atol=1e-5, rtol=1e-4
    )


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("tag", [], "train.match_rates is for one class per example \\(classify\\), not for tag: leave it out"),
        ("classify", ["data.separator=;"], "not for classify with these settings: leave it out"),
        (
            "classify",
            ["model.preset=gpt2", TINY],
            "shifts the biases of the classifier, but this one has none",
        ),
    ],
)
def test_what_cannot_be_matched_is_said_before_training(
    name: str, changes: list[str], message: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "train.tsv", 40, 1)
    asked = [f"out={tmp_path / 'run'}", f"data.train=[{file}]", "train.match_rates=true", "train.steps=2", *changes]
    if not any("preset" in change for change in changes):
        asked.append("model.preset=bert-tiny")
    with pytest.raises(UsageError, match=message):
        run_recipe(read_recipe(name, asked, debug=True), say=lambda _: None)
    assert not (tmp_path / "run").exists()
