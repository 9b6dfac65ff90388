"""Starting from other weights: labels are matched by name, ELECTRA's pair from both of its folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.models.electra import ElectraPair
from qkv.recipes.schema import read_recipe
from qkv.runs.prepare import Prepared, prepare
from qkv.runs.run import run_recipe
from qkv.tasks.start import label_rows, transfer

TEXT = "The cat sat on the mat. A dog ran. It was late. Nobody came home.\n"


def small(name: str, out: Path, train: Path, *changes: str) -> Any:
    asked = [f"out={out}", f"data.train={train}", "train.workers=1", "train.steps=2", "data.held_out=0.3", *changes]
    return read_recipe(name, asked, debug=True)


def prepared(recipe: Any) -> Prepared:
    Path(recipe.out).mkdir(parents=True)
    return prepare(recipe, Path(recipe.out), lambda _: None)


def test_rows_of_labels_follow_their_names(tiny_bert: dict[str, Any]) -> None:
    def model(labels: int) -> tuple[Any, Any]:
        config = catalogue.preset("bert-tiny", heads=["pool", "classify"], num_labels=labels, **tiny_bert)
        return config, catalogue.build(config)

    (config, old), (_, new) = model(2), model(3)
    fresh = new.heads["classify"].linear.weight.detach().clone()
    transfer(new, Folder(config, old, labels=("positive", "negative")), ("negative", "neutral", "positive"))
    before, after = (m.heads["classify"].linear.weight for m in (old, new))
    assert torch.equal(after[0], before[1])
    assert torch.equal(after[2], before[0])
    assert torch.equal(after[1], fresh[1])  # a new label keeps its new row
    assert torch.equal(new.embeddings.table, old.embeddings.table)


def test_numbered_labels_are_those_that_nobody_named() -> None:
    assert label_rows(("LABEL_0", "LABEL_1"), ("1", "0", "2")) == {0: 1, 1: 0}


def test_fine_tuning_goes_on_with_the_same_classes(bert_folder: Path, tmp_path: Path) -> None:
    """The folder has its labels in another order than sorting gives."""
    extra = ["on", "mat", "the", "a", "sat", "cats", "dogs", "run"]
    rows = [f"{text} {a} {b}" for text in ("the cat sat", "a dog run") for a in extra for b in extra]
    lines = [f"{row}\t{'z' if row.startswith('the cat') else 'a'}" for row in rows]
    (tmp_path / "t.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    given: dict[str, Any] = {"train": tmp_path / "t.tsv", "device": "cpu", "say": lambda _: None, "optim.lr": 5e-3}
    given |= {"train.workers": 1, "train.tokens": 128}
    qkv.finetune(bert_folder, out=tmp_path / "first", epochs=8, **given)
    found = read_folder(tmp_path / "first")
    with torch.no_grad():
        for tensor in found.model.heads["classify"].parameters():
            tensor.copy_(tensor.flip(0))
    write_folder(Folder(found.config, found.model, found.tokenizer, ("z", "a")), tmp_path / "turned")
    again = qkv.finetune(tmp_path / "turned", **(given | {"train.steps": 1, "optim.lr": 1e-9}))
    assert again.labels == ("a", "z")
    assert [found.label for found in again.classify(["the cat sat", "a dog run"])] == ["z", "a"]


def test_electra_starts_from_both_of_its_folders(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"{n} {TEXT}" for n in range(60)))
    run_recipe(small("pretrain-electra", tmp_path / "first", tmp_path / "text.txt"), device="cpu", say=lambda _: None)
    start = [f"model.init={tmp_path / 'first'}", "model.preset=", "model.set={}"]
    found = prepared(small("pretrain-electra", tmp_path / "second", tmp_path / "text.txt", *start)).model
    assert isinstance(found, ElectraPair)
    for model, folder in ((found.discriminator, "first"), (found.generator, "first/generator")):
        wanted = read_folder(tmp_path / folder).model.state_dict()
        assert all(torch.equal(tensor, wanted[name]) for name, tensor in model.state_dict().items())


def test_a_model_without_the_head_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("the cat sat\n" * 40)
    translator = small("translate", tmp_path / "first", tmp_path / "a.en")
    translator = read_recipe(
        "translate",
        [f"out={tmp_path / 'first'}", f"data.train=[{tmp_path / 'a.en'},{tmp_path / 'a.en'}]", "train.steps=1",
         f"data.valid=[{tmp_path / 'a.en'},{tmp_path / 'a.en'}]"],
        debug=True,
    )  # fmt: skip
    run_recipe(translator, device="cpu", say=lambda _: None)
    rows = ["the cat sat\tz", "a dog run\ta"] * 20
    (tmp_path / "t.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    asked = small("classify", tmp_path / "second", tmp_path / "t.tsv", f"model.init={tmp_path / 'first'}")
    with pytest.raises(UsageError, match="needs a model with the head classify, which this family does not have"):
        run_recipe(asked, device="cpu", say=lambda _: None)
    assert not (tmp_path / "second").exists()
