"""`qkv prune`: what matters least goes, what is left says what it should, and bad requests are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import qkv
from qkv.common.errors import UsageError
from qkv.nn.gates import gated
from qkv.recipes.schema import read_recipe
from qkv.runs.prune import Cuts, Pruned, prune
from qkv.runs.run import run_recipe
from tests.compression.test_heads import expected_heads
from tests.runs.test_finetune import FAST, texts, write

ASKED = texts(20, 7)


def quiet(line: str) -> None:
    del line


def run(folder: Path, out: Path, cuts: Cuts, **given: Any) -> Pruned:
    return prune(str(folder), str(out), cuts, device="cpu", say=quiet, **given)


@pytest.fixture(scope="module")
def trained(bert_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A classifier with its run, the file it was trained on, and another with answers."""
    place = tmp_path_factory.mktemp("prune")
    train, test = write(place / "train.csv", 200, 1), write(place / "test.csv", 60, 2)
    torch.manual_seed(0)
    qkv.finetune(
        bert_folder, train=train, task="classify", epochs=6, out=place / "run", device="cpu", say=quiet, **FAST
    )
    return place / "run", train, test


def stored_dtypes(folder: Path) -> set[str]:
    """Return the dtypes in the file of the weights."""
    return {str(tensor.dtype).removeprefix("torch.") for tensor in load_file(folder / "model.safetensors").values()}


def logits(folder: Path) -> torch.Tensor:
    model = qkv.load(folder, device="cpu")
    return torch.stack(model.logits(model.encode(ASKED).ids))


def test_the_heads_that_go_are_those_that_matter_least(trained: tuple[Path, str, str], tmp_path: Path) -> None:
    folder, train, test = trained
    whole = qkv.load(folder, device="cpu")
    gradient = whole.head_importance(train, ablation=False).gradient  # files of training, as a run knows them
    with torch.no_grad(), gated(expected_heads(whole.module, gradient, 0.5)):
        wanted = torch.stack(whole.logits(whole.encode(ASKED).ids))
    found = run(folder, tmp_path / "small", Cuts(heads=0.5), data=[test])
    torch.testing.assert_close(logits(tmp_path / "small"), wanted, atol=1e-5, rtol=0)
    assert (wanted - logits(folder)).abs().max() > 1e-4
    assert found.stored_as == "qkv-bert"
    assert "heads of width dim / num_heads" in found.note


def test_figures_are_those_of_evaluate_and_of_the_files(trained: tuple[Path, str, str], tmp_path: Path) -> None:
    folder, _, test = trained
    found = run(folder, tmp_path / "small", Cuts(layers={"": 1}), data=[test])
    for figures, place in ((found.before, folder), (found.pruned, tmp_path / "small")):
        model = qkv.load(place, device="cpu")
        accuracy, *_ = model.evaluate(test)
        assert figures.scores["accuracy"] == accuracy.value
        assert figures.parameters == sum(parameter.numel() for parameter in model.module.parameters())
        assert figures.megabytes == (place / "model.safetensors").stat().st_size / 1e6
        assert figures.speed is not None
        assert min(figures.speed.milliseconds, figures.speed.per_second, figures.speed.joules) > 0
    assert found.pruned.parameters < found.before.parameters
    assert found.healed is None
    assert json.loads(json.dumps(found.to_dict()))["pruned"]["scores"] == dict(found.pruned.scores)


def test_a_model_without_layers_is_read_by_transformers(trained: tuple[Path, str, str], tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    found = run(trained[0], tmp_path / "small", Cuts(layers={"": [0]}))
    assert (found.stored_as, found.note, found.layers) == ("bert", "", {"stack": [0]})
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "small").eval()
    tokens = AutoTokenizer.from_pretrained(tmp_path / "small")
    with torch.no_grad():
        wanted = theirs(**tokens(ASKED, padding=True, return_tensors="pt")).logits
    torch.testing.assert_close(logits(tmp_path / "small"), wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("idle", [0, 1])
def test_a_layer_that_does_nothing_is_the_first_to_go(
    idle: int, trained: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder, _, test = trained
    model = qkv.load(folder, device="cpu")
    blocks: Any = model.module.stack.blocks
    with torch.no_grad():
        for part in (blocks[idle].attention.part.out, blocks[idle].feedforward.part.down):
            part.weight.zero_()
            part.bias.zero_()
        for norm in [norm for block in blocks for norm in (block.attention.norm, block.feedforward.norm)]:
            norm.weight.fill_(1)  # a norm of a normalised row changes nothing
            norm.bias.zero_()
        embeddings: Any = model.module.embeddings
        embeddings.norm.weight.fill_(1)
        embeddings.norm.bias.zero_()
    model.save(tmp_path / "whole")
    found = run(tmp_path / "whole", tmp_path / "small", Cuts(layers={"": 1}), data=[test])
    assert found.layers == {"stack": [idle]}
    torch.testing.assert_close(logits(tmp_path / "small"), logits(tmp_path / "whole"), atol=1e-4, rtol=1e-4)


def test_without_examples_the_top_layers_go(bert_folder: Path, tmp_path: Path) -> None:
    found = run(bert_folder, tmp_path / "small", Cuts(layers={"": 1}))
    assert found.layers == {"stack": [1]}
    assert not found.pruned.scores
    assert found.pruned.speed is None


def test_texts_of_the_kept_tokens_are_answered_as_before(trained: tuple[Path, str, str], tmp_path: Path) -> None:
    shutil.copytree(trained[0], tmp_path / "whole")
    found = run(tmp_path / "whole", tmp_path / "small", Cuts(vocabulary=ASKED))
    assert found.tokens == 1  # ##ed; ##s is a letter
    torch.testing.assert_close(logits(tmp_path / "small"), logits(trained[0]), atol=1e-5, rtol=1e-4)


def test_healing_is_a_run_that_starts_from_what_is_left(trained: tuple[Path, str, str], tmp_path: Path) -> None:
    folder, _, test = trained
    cuts = Cuts(heads=0.5, layers={"": 1})
    found = run(folder, tmp_path / "small", cuts, data=[test], healed=True, changes={"train.steps": 3})
    assert found.healed is not None
    assert found.healed.parameters == found.pruned.parameters
    recipe = (tmp_path / "small" / "recipe.toml").read_text()
    assert f'init = "{tmp_path / "small-start"}"' in recipe
    assert "steps = 3" in recipe
    assert "lr = 0.0025" in recipe  # half of that of training
    assert not torch.equal(logits(tmp_path / "small"), logits(tmp_path / "small-start"))
    assert (tmp_path / "small" / "energy.json").is_file()
    again = run(folder, tmp_path / "small", cuts, healed=True, changes={"train.steps": 3})  # finished: goes on at once
    assert again.healed is not None


@pytest.mark.parametrize("name", ["word2vec", "glove"])
def test_word_vectors_are_named_with_what_can_be_done(name: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the dog sat on the mat\nthe cat sat on a mat\n" * 100)
    folder, out = tmp_path / name, tmp_path / "out"
    recipe = read_recipe(name, [f"data.train={text}", f"out={folder}", "log.track=none", "train.workers=0"], debug=True)
    run_recipe(recipe, device="cpu", say=quiet)
    message = f"^{folder} holds word vectors, without layers and heads: `qkv prune --vocabulary FILE` keeps the words"
    with pytest.raises(UsageError, match=message):
        run(folder, out, Cuts(layers={"": 1}))
    with pytest.raises(UsageError, match=message):
        run(folder, out, Cuts(heads=0.5), data=[str(text)])
    for data in (None, text):
        with pytest.raises(UsageError, match=message):
            qkv.shrink(folder, data, target="1 MB", out=out, device="cpu", say=quiet)
        with pytest.raises(UsageError, match=message):
            qkv.distill(folder, data, out=out, device="cpu", say=quiet)
    assert not out.exists()
    found = run(folder, out, Cuts(vocabulary=["the dog sat on the mat"]))
    assert found.tokens == 1  # cat; a is a letter


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_weights_are_stored_as_in_the_source(dtype: str, trained: tuple[Path, str, str], tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(trained[0], whole)
    qkv.load(whole, device="cpu").save(whole, dtype=dtype)
    found = run(whole, tmp_path / "small", Cuts(layers={"": 1}), healed=True, changes={"train.steps": 2})
    for place in ("small-start", "small", "small/best"):
        if (tmp_path / place).is_dir():
            assert stored_dtypes(tmp_path / place) == {dtype}
    assert found.healed is not None
    assert found.healed.megabytes < found.before.megabytes


def test_a_folder_that_is_no_run_is_healed_on_the_files_that_are_given(
    trained: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder, train, test = trained
    qkv.load(folder, device="cpu").save(tmp_path / "plain")
    with pytest.raises(UsageError, match=r"is not a run, so its training files are not known: give --set data\.train"):
        run(tmp_path / "plain", tmp_path / "small", Cuts(layers={"": 1}), data=[test], healed=True)
    assert not (tmp_path / "small-start").exists()
    changes = {"data.train": train, "train.steps": 2, "train.tokens": 64}
    found = run(tmp_path / "plain", tmp_path / "small", Cuts(layers={"": 1}), healed=True, changes=changes)
    assert found.healed is not None
    assert qkv.load(tmp_path / "small", device="cpu").labels == ("cats", "none")


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        (Cuts(), "nothing to remove: give --heads"),
        (Cuts(heads=0.5), "which heads matter is measured on examples: give --data"),
        (Cuts(heads=1.5), "a share above 0 and below 1"),
        (Cuts(layers={"": 2}), "from 1 to 1 of the 2 layers"),
        (Cuts(layers={"": [5]}), "layers are numbered from 0 to 1, got 5"),
        (Cuts(layers={"decoder": 1}), "this bert has no decoder: it has stack"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    cuts: Cuts, message: str, bert_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        run(bert_folder, tmp_path / "small", cuts)
    assert not (tmp_path / "small").exists()


def test_places_that_hold_something_else_are_refused(trained: tuple[Path, str, str], tmp_path: Path) -> None:
    folder = trained[0]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    cuts = Cuts(layers={"": 1})
    with pytest.raises(UsageError, match="exists and is not a model folder"):
        run(folder, tmp_path / "mine", cuts)
    with pytest.raises(UsageError, match="is the model itself"):
        run(folder, folder, cuts)
    run(folder, tmp_path / "small", cuts)
    qkv.load(folder, device="cpu").save(tmp_path / "int8", dtype="int8")
    with pytest.raises(UsageError, match="are in int8: prune the model in float32, and quantise the result"):
        run(tmp_path / "int8", tmp_path / "smaller", cuts)


def test_encoder_and_decoder_lose_layers_by_name(tmp_path: Path) -> None:
    from tests.predict.conftest import make_translator

    make_translator("transformer-tiny").save(tmp_path / "whole")
    with pytest.raises(UsageError, match="two stacks: say encoder:1 or decoder:1"):
        run(tmp_path / "whole", tmp_path / "small", Cuts(layers={"": 1}))
    found = run(tmp_path / "whole", tmp_path / "small", Cuts(layers={"decoder": 1}), data=["phrasebook:test:5"])
    config = qkv.load(tmp_path / "small", device="cpu").config
    assert (config.num_layers, config.num_decoder_layers) == (2, 1)
    assert "BLEU" in found.pruned.scores
