"""Perplexity of a language model: validation's number on validation's text, and words and bytes that were predicted."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from qkv.checkpoints.folder import Folder
from qkv.cli.main import app
from qkv.data.config import DataConfig
from qkv.data.phrasebook import phrasebook
from qkv.exams.evaluate import evaluate
from qkv.models import catalogue
from qkv.predict import Model
from qkv.recipes.schema import read_recipe
from qkv.runs.run import run_recipe
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

SENTENCES = [english for english, _ in phrasebook(300, 4)]
SIZES = {"dim": 16, "num_layers": 1, "num_heads": 2, "ff_dim": 32}


def blocks(sentences: list[str]) -> str:
    """Documents of five lines with a blank line between."""
    return "\n\n".join("\n".join(sentences[i : i + 5]) for i in range(0, len(sentences), 5)) + "\n"


@pytest.fixture(scope="module", params=["blank", "line", "file"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A run and its validation loss."""
    place = tmp_path_factory.mktemp("language")
    (place / "train.txt").write_text(blocks(SENTENCES[:200]))
    (place / "valid.txt").write_text(blocks(SENTENCES[200:]))
    changes = [f"out={place / 'run'}", f"data.train={place / 'train.txt'}", f"data.valid={place / 'valid.txt'}"]
    changes += ["optim.lr=0.01", "train.tokens=96", "train.validate_every=30"]
    changes += [f"data.unit={request.param}", "data.max_length=24", "train.workers=1", "train.steps=60"]
    outcome = run_recipe(read_recipe("pretrain-gpt", changes, debug=True), device="cpu", say=lambda _: None)
    assert outcome.best is not None
    return place, outcome.best


def ask(*arguments: object) -> Any:
    result = CliRunner().invoke(app, ["evaluate", *map(str, arguments), "--device", "cpu"], catch_exceptions=False)
    assert result.exit_code == 0
    return result


def test_evaluate_gives_the_loss_of_validation(trained: tuple[Path, float]) -> None:
    place, loss = trained
    result = ask(place / "run" / "best", place / "valid.txt", "--json")
    assert math.log(json.loads(result.stdout)["perplexity"]["value"]) == pytest.approx(loss, abs=1e-5)
    if "data.unit is file" in result.stderr:  # one document, so windows that do not overlap are those of validation
        slid = ask(place / "run" / "best", place / "valid.txt", "--stride", "24", "--json")
        assert math.log(json.loads(slid.stdout)["perplexity"]["value"]) == pytest.approx(loss, abs=1e-5)
    assert str(place / "run" / "recipe.toml") in result.stderr
    assert "windows have 24 tokens" in result.stderr
    whole = json.loads(ask(place / "run", place / "valid.txt", "--json").stdout)["perplexity"]
    assert "window:24" in whole["signature"]
    shorter = ask(place / "run", place / "valid.txt", "--set", "max_length=8", "--json")
    assert "window:8" in json.loads(shorter.stdout)["perplexity"]["signature"]


def test_without_a_recipe_evaluate_says_what_it_does(trained: tuple[Path, float], tmp_path: Path) -> None:
    place, _ = trained
    folder = shutil.copytree(place / "run" / "best", tmp_path / "alone")
    assert "no recipe.toml next to the model" in ask(folder, place / "valid.txt").stderr


@pytest.fixture(scope="module")
def indifferent() -> Model:
    """A GPT to which every token is as likely as any other."""
    tokenizer = train_tokenizer(SENTENCES, TokenizerConfig(kind="byte-bpe", vocab_size=300, specials="gpt"))
    config = catalogue.preset("gpt2", vocab_size=tokenizer.vocab_size, max_length=8, **SIZES)
    module = catalogue.build(config).eval()
    for parameter in module.parameters():
        torch.nn.init.zeros_(parameter)
    return Model(Folder(config, module, tokenizer), device="cpu")


@pytest.mark.parametrize("text", ["The cat", "Two dogs play in the snow, and the cats sleep.", "ça va: Noël\u3000été"])
@pytest.mark.parametrize("ends", [False, True])
def test_words_and_bytes_are_those_of_predicted_tokens(
    indifferent: Model, tmp_path: Path, text: str, ends: bool
) -> None:
    (tmp_path / "text.txt").write_text(text)
    tokenizer = indifferent.tokenizer
    assert tokenizer is not None
    ((window,),) = tokenizer.encode_spans([text])
    tokens = [*zip(window.ids, window.spans, strict=True), *([(0, (0, 0))] if ends else [])]
    wanted = [span for row, (_, span) in enumerate(tokens) if row % 8]
    firsts = [span for row, (_, span) in enumerate(tokens) if row % 8 == 0]
    scores = evaluate(indifferent, [str(tmp_path / "text.txt")], DataConfig(), ends=ends)
    parts = scores[0].parts
    assert parts["tokens"] == len(wanted)
    assert scores[0].value == pytest.approx(tokenizer.vocab_size, rel=1e-4)
    lost = sum(len(text[start:end].encode()) for start, end in firsts)
    assert parts["bytes"] == pytest.approx(len(text.encode()) - lost, abs=2)  # characters of several tokens
    begins = [found.start() for found in re.finditer(r"\S+", text)]
    assert parts["words"] == len([at for at in begins if not any(start <= at < end for start, end in firsts)])
    assert scores[2].value == pytest.approx(math.exp(len(wanted) * math.log(tokenizer.vocab_size) / parts["bytes"]))


def formula(theirs: Any, ids: list[int], window: int, stride: int) -> tuple[float, int]:
    """The sum of -log p and the number of predicted tokens, as the documentation of `transformers` slides windows."""
    total, count, done = 0.0, 0, 0
    for start in range(0, len(ids), stride):
        end = min(start + window, len(ids))
        target = torch.tensor([ids[start:end]])
        labels = target.clone()
        labels[:, : -(end - done)] = -100
        predicted = int((labels[:, 1:] != -100).sum())
        with torch.no_grad():
            total += float(theirs(target, labels=labels).loss) * predicted if predicted else 0.0
        count, done = count + predicted, end
        if end == len(ids):
            break
    return total, count


@pytest.mark.parametrize("stride", [1, 5, 12])
def test_a_stride_slides_as_in_transformers(tmp_path: Path, stride: int) -> None:
    """With a stride of the whole window, the first token of each window is not predicted, there and here."""
    import transformers as hf

    from tests.predict.writers import writer

    model = writer(max_length=12)
    model.save(tmp_path / "gpt")
    theirs = hf.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt").eval()
    (tmp_path / "text.txt").write_text(text := " ".join(SENTENCES[:5]))
    assert model.tokenizer is not None
    ids = model.tokenizer.encode([text]).ids[0]
    total, count = formula(theirs, ids, 12, stride)
    assert (count == len(ids) - 1) == (stride < 12)
    found = json.loads(ask(tmp_path / "gpt", tmp_path / "text.txt", "--stride", stride, "--json").stdout)["perplexity"]
    assert found["value"] == pytest.approx(math.exp(total / count), rel=1e-4)
    assert found["parts"]["tokens"] == count
    assert f"text:file|window:12|stride:{stride}" in found["signature"]
    words = len(text.split()) - (len(text.split()[0]) == len(model.tokenizer.decode(ids[:1])))
    assert stride == 12 or abs(found["parts"]["words"] - words) <= 1


def test_a_stride_that_does_not_fit_is_refused(tmp_path: Path, trained: tuple[Path, float]) -> None:
    place, loss = trained
    for stride, said in (("0", "at least 1, got 0"), ("25", "from 1 to the window of 24 tokens, got 25")):
        arguments = ["evaluate", str(place / "run"), str(place / "valid.txt"), "--stride", stride, "--device", "cpu"]
        result = CliRunner().invoke(app, arguments)
        assert said in str(result.exception)
    slid = json.loads(ask(place / "run" / "best", place / "valid.txt", "--stride", "4", "--json").stdout)["perplexity"]
    assert "stride:4" in slid["signature"]
    assert math.log(slid["value"]) < loss + 0.5
