"""Runs that name no model: they start from the built-in encoder, say so, and say if it cannot read the texts."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv.common.errors import QkvError, UnknownText
from qkv.models import catalogue
from qkv.predict import loading
from qkv.recipes.schema import override, read_recipe
from qkv.runs.run import run_recipe
from qkv.runs.search import search

ROOT = Path(__file__).parents[2]
LINE = "starting from the built-in encoder english; set model.init=FOLDER or hf:OWNER/NAME for another"
FAST: dict[str, Any] = {"train.workers": 1, "train.tokens": 128, "train.steps": 1}
WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "run", ".", ",", "!"]


@pytest.fixture
def english(bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the built-in encoder, as small as a test needs."""
    monkeypatch.setattr(loading, "PRETRAINED", tmp_path / "pretrained")
    return Path(shutil.copytree(bert_folder, tmp_path / "pretrained" / "english"))


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PRETRAINED", tmp_path / "pretrained")


def rows(path: Path, count: int = 40, words: list[str] = WORDS) -> str:
    draw = random.Random(1)
    texts = [" ".join(draw.choices(words, k=6)) for _ in range(count)]
    path.write_text("\n".join(["text\tlabel", *(f"{text}\t{('cats', 'none')[i % 2]}" for i, text in enumerate(texts))]))
    return str(path)


def data(task: str, folder: Path) -> dict[str, Any]:
    file = folder / "train.tsv"
    if task == "tag":
        file = folder / "train.conll"
        file.write_text("\n\n".join(f"the O\n{word} B-X" for word in WORDS * 4))
    elif task == "answer":
        file = folder / "train.json"
        asked = {"id": "1", "question": "run ?", "answers": [{"text": "cat", "answer_start": 4}]}
        many = [{"context": f"the cat {'on ' * i}", "qas": [{**asked, "id": str(i)}]} for i in range(60)]
        file.write_text(json.dumps({"data": [{"title": "t", "paragraphs": many}]}))
    elif task == "sentence-embeddings":
        file.write_text("\n".join(f"the cat {word} {i}\ta dog {word} {i}" for i, word in enumerate(WORDS * 6)))
    elif task == "regress":
        file.write_text("\n".join(["text\tscore", *(f"the cat {word}\t{i / 7}" for i, word in enumerate(WORDS * 6))]))
    elif task == "pairs":
        both = (f"the cat {i}\ta dog {i}\t{i % 2}" for i in range(60))
        file.write_text("\n".join(["sentence1\tsentence2\tlabel", *both]))
    else:
        rows(file)
    return {"data.train": [str(file)], "data.held_out": 0.2, "out": str(folder / "run")}


@pytest.mark.parametrize("task", ["classify", "pairs", "regress", "tag", "answer", "sentence-embeddings"])
def test_fine_tuning_starts_from_the_encoder(task: str, english: Path, tmp_path: Path) -> None:
    said: list[str] = []
    asked = override(read_recipe(task), {**FAST, **data(task, tmp_path), "optim.lr": 0.0})
    run_recipe(asked, device="cpu", say=said.append)
    assert said[0] == LINE
    assert read_recipe(str(tmp_path / "run" / "recipe.toml")).model.init == "english"
    mine, theirs = qkv.load(tmp_path / "run", device="cpu"), qkv.load("english", device="cpu")
    torch.testing.assert_close(mine.hidden([[2, 5, 6, 3]])[0], theirs.hidden([[2, 5, 6, 3]])[0])
    assert run_recipe(asked, resume=True, device="cpu", say=said.append).finished


def test_a_search_starts_from_it_too(english: Path, tmp_path: Path) -> None:
    said: list[str] = []
    search(override(read_recipe("classify"), {**FAST, **data("classify", tmp_path)}), device="cpu", say=said.append)
    assert said.count(LINE) == 1
    assert read_recipe(str(tmp_path / "run" / "recipe.toml")).model.init == "english"


def test_a_model_of_your_own_comes_first(english: Path, bert_folder: Path, tmp_path: Path) -> None:
    for number, start in enumerate(({"model.init": str(bert_folder)}, {"model.preset": "bert-tiny"})):
        said: list[str] = []
        small = {"tokenizer.vocab_size": 60, "out": str(tmp_path / f"run-{number}")}
        asked = override(read_recipe("classify"), {**FAST, **data("classify", tmp_path), **start, **small})
        run_recipe(asked, device="cpu", say=said.append)
        assert LINE not in said


@pytest.mark.usefixtures("nothing")
def test_a_copy_without_the_encoder_starts_from_random_weights(tmp_path: Path) -> None:
    said: list[str] = []
    asked = override(read_recipe("tag"), {**FAST, **data("tag", tmp_path), "tokenizer.vocab_size": 60})
    assert run_recipe(asked, device="cpu", say=said.append).finished
    assert said[0].startswith("this copy of qkv has no built-in encoder 'english': starting from random weights")
    assert "\n" not in said[0]
    assert read_recipe(str(tmp_path / "run" / "recipe.toml")).model.preset == "bert-mini"
    assert run_recipe(asked, resume=True, device="cpu", say=said.append).finished


def test_other_tasks_still_need_a_model(english: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a cat\n" * 40)
    asked = override(read_recipe("adapt"), {"data.train": [str(tmp_path / "a.txt")]})
    with pytest.raises(QkvError, match=r"set exactly one of model\.preset and model\.init"):
        run_recipe(asked, say=lambda _: None)


def test_finetune_needs_only_a_file(english: Path, tmp_path: Path) -> None:
    said: list[str] = []
    model = qkv.finetune(train=rows(tmp_path / "a.tsv"), device="cpu", say=said.append, **FAST)
    assert said[0].endswith("2 classes (cats, none) in 'label': running the recipe classify")
    assert said[1] == LINE
    assert model.labels == ("cats", "none")
    held = {"data.held_out": 0.3}
    number = qkv.finetune(train=data("regress", tmp_path)["data.train"], device="cpu", say=said.append, **FAST, **held)
    assert number.config.heads == ("pool", "regress")


def test_texts_that_the_encoder_cannot_read_are_said(english: Path, tmp_path: Path) -> None:
    said: list[str] = []
    qkv.finetune(train=rows(tmp_path / "a.tsv", words=["犬", "猫", "the"]), device="cpu", say=said.append, **FAST)
    (line,) = [line for line in said if "unknown to" in line]
    assert line.split("%")[1].startswith(" of the characters of these texts are unknown to english, such as ")
    assert "model.init=hf:OWNER/NAME" in line
    assert "model.preset=" in line


def test_another_language_is_said(english: Path, tmp_path: Path, wordpiece) -> None:
    """Every letter is known, but words fall into many pieces and none is a common English one."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", *letters, *(f"##{c}" for c in letters)]
    qkv.build("bert-tiny", heads=["mlm"], vocab_size=len(words), dim=16, num_heads=2, ff_dim=32).save(english)
    wordpiece(words).save(str(english / "tokenizer.json"))
    for name, spoken, told in (("de", ["ein", "hund", "und", "katzen"], True), ("en", ["the", "cat"], False)):
        said: list[str] = []
        qkv.finetune(train=rows(tmp_path / f"{name}.tsv", words=spoken), device="cpu", say=said.append, **FAST)
        assert any(line.startswith("these texts do not look English (0% ") for line in said) == told


def test_predictions_for_unknown_texts_warn_once(english: Path) -> None:
    model = qkv.load("english", device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnknownText)
        model.embed(["the cat sat"])
        with pytest.raises(UnknownText, match="100% of the characters of these texts are unknown to this model"):
            model.embed(["犬"])
        model.embed(["犬"])
        with pytest.raises(UnknownText, match=r"50% .* such as 犬.*: use a model that was trained on such texts"):
            qkv.load("english", device="cpu").similar("on", "犬猫")


def test_the_encoder_fits_into_30_megabytes() -> None:
    """What benchmarks/english.py trains: weights in float16, the head that fills masks, 0.7 MB of tokenizer."""
    recipe = read_recipe(str(ROOT / "benchmarks" / "english-electra.toml"))
    changes = {**recipe.model.set, "vocab_size": recipe.tokenizer.vocab_size, "heads": ["mlm"]}
    with torch.device("meta"):
        model = catalogue.build(override(catalogue.preset(recipe.model.preset), changes))
    weights = sum(parameter.numel() for parameter in model.parameters())
    assert 13e6 < weights < 14.5e6
    assert 2 * weights + 0.8e6 < 30e6


def test_the_recipes_of_the_encoder_are_sound() -> None:
    for name, task in (("electra", "replaced"), ("sentences", "mixture")):
        assert read_recipe(str(ROOT / "benchmarks" / f"english-{name}.toml")).task == task
