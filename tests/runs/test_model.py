"""Python that can be explored: names, help, repr, `evaluate` on any model, errors for wrong types."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import qkv
from qkv import predict
from qkv.exams.evaluate import evaluate
from tests.runs.test_finetune import tune, write


@pytest.fixture(scope="module")
def reviews(bert_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("model")
    tune(bert_folder, train=write(place / "a.csv", 60, 1), out=place / "run", **{"train.steps": 2})
    return qkv.load(place / "run", device="cpu")


def test_the_names_of_the_package_need_no_torch() -> None:
    code = "import qkv, sys; print(*dir(qkv)); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert set(qkv.__all__) <= set(done.stdout.split())
    assert {name for name in done.stdout.split() if not name.startswith("__")} == set(qkv.__all__) - {"__version__"}


def test_help_lists_what_there_is() -> None:
    text = pydoc.render_doc(qkv, renderer=pydoc.plaintext)
    assert all(name in text for name in qkv.__all__ if name != "__version__")
    assert " evaluate(" in text
    assert inspect.signature(qkv.load).parameters.keys() == inspect.signature(predict.load).parameters.keys()


def test_a_model_says_what_it_is_and_can(reviews: Any) -> None:
    count = sum(parameter.numel() for parameter in reviews.module.parameters())
    labels = ", ".join(reviews.labels)
    assert repr(reviews) == (
        f"<qkv.Model: bert, {count:,} parameters, on cpu, labels: {labels}; can classify, embed, similar>"
    )
    assert "can give hidden states and logits" in repr(qkv.build("bert-tiny", device="cpu", vocab_size=9))


def test_every_loaded_model_can_be_scored(reviews: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", 30, 2)
    assert reviews.evaluate(file) == reviews.evaluate(Path(file)) == evaluate(reviews, [file])
    assert isinstance(reviews, qkv.Model)
    text = tmp_path / "stars.csv"
    text.write_text(Path(file).read_text().replace("kind", "stars", 1))
    assert reviews.evaluate(text, label="stars")[0].value == reviews.evaluate(file)[0].value


def test_a_built_model_and_a_translator_can_be_scored_too(tmp_path: Path) -> None:
    for name, line in (("a.en", "Two dogs."), ("a.de", "Zwei Hunde.")):
        (tmp_path / name).write_text(f"{line}\n")
    scores = qkv.load("en-de", device="cpu").evaluate(tmp_path / "a.en", tmp_path / "a.de", beam=1)
    assert [score.name for score in scores][:1] == ["BLEU"]
    with pytest.raises(qkv.UsageError, match="evaluate"):
        qkv.build("bert-tiny", device="cpu", vocab_size=9).evaluate(tmp_path / "a.en")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.classify(3), "classify takes a list of texts, got 3"),
        (lambda model: model.classify(None), "classify takes a list of texts, got None"),
        (lambda model: model.classify("a"), "classify takes a list of texts; put a single one in a list"),
        (lambda model: model.classify({"a": 1}), r"takes a list of texts, got \{'a': 1\}"),
        (lambda model: model.classify(["a", None]), "takes a list of texts, and number 1 of it is None"),
        (lambda model: model.classify(["a"], [2]), "takes a list of texts, and number 0 of it is 2"),
        (lambda model: model.embed([b"a"]), "embed takes a list of texts, and number 0 of it is b'a'"),
        (lambda model: model.embed("a"), "embed takes a list of texts; put a single one in a list"),
        (lambda model: model.similar("a", 1), "number 1 of it is 1"),
        (lambda model: model.evaluate(), "needs a file"),
        (lambda model: model.evaluate(3), "takes the names of files, got 3"),
        (lambda _: qkv.load(None), "load takes the path of a model folder .* got None"),
        (lambda _: qkv.info(3), "info takes the path of a model folder .* got 3"),
    ],
    ids=lambda value: value.replace(" ", "-")[:60] if isinstance(value, str) else "",
)
def test_wrong_types_are_one_sentence(reviews: Any, call: Any, message: str) -> None:
    with pytest.raises(qkv.UsageError, match=message) as caught:
        call(reviews)
    assert "\n" not in str(caught.value)
