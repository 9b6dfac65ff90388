"""The lines of a report do what they say, in the shell, in Python and in transformers."""

from __future__ import annotations

import shlex
import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import qkv
from qkv.exams.report.usage import TEXT, usage
from tests.predict.conftest import make_translator
from tests.predict.readers import NER, make_reader


def lines_of(model: Any, folder: Path, **options: Any) -> dict[str, str]:
    model.save(folder)
    return {one.where: one.lines for one in usage(qkv.load(folder, device="cpu"), str(folder), **options)}


def printed(code: str) -> str:
    out = StringIO()
    with redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code, {})
    return out.getvalue().strip()


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    from qkv.cli.main import run

    def call(line: str) -> str:
        monkeypatch.setattr("sys.argv", shlex.split(line))
        run()
        return capfd.readouterr().out.strip()

    return call


def test_a_classifier(tmp_path: Path, typed: Any) -> None:
    model = make_reader("pool", "classify", labels=("good", "bad"))
    found = lines_of(model, tmp_path / "it's mine")
    (label,) = model.classify([TEXT])
    assert typed(found["Shell"]).split("\t") == [label.label, f"{label.score:.4f}"]
    assert label.label in printed(found["Python"])
    theirs = printed(found["transformers"])
    assert repr(label.label) in theirs
    assert f"{label.score:.3f}"[:4] in theirs


def test_pairs(tmp_path: Path, typed: Any) -> None:
    model = make_reader("pool", "classify", labels=("good", "bad"))
    found = lines_of(model, tmp_path / "m", pairs=True)
    (label,) = model.classify(["The first text."], ["The second text."])
    assert typed(found["Shell"]).split("\t") == [label.label, f"{label.score:.4f}"]
    assert label.label in printed(found["Python"])


def test_a_number(tmp_path: Path, typed: Any) -> None:
    model = make_reader("pool", "regress")
    found = lines_of(model, tmp_path / "m")
    (number,) = model.classify([TEXT])
    assert typed(found["Shell"]) == f"{number:.4f}"
    assert f"{number:.3f}" in printed(found["transformers"])
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "m")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "m")
    assert float(theirs(**tokenizer(TEXT, return_tensors="pt")).logits) == pytest.approx(number, abs=1e-4)


@pytest.mark.parametrize(("heads", "labels"), [(("tag",), NER), (("span",), ()), (("mlm",), ())])
def test_taggers_readers_and_fillers(tmp_path: Path, typed: Any, heads: tuple[str, ...], labels: Any) -> None:
    found = lines_of(make_reader(*heads, labels=labels), tmp_path / "m")
    assert set(found) == {"Shell", "Python", "transformers"}
    assert typed(found["Shell"]) is not None
    assert printed(found["Python"]).startswith("[")
    assert printed(found["transformers"])


def test_a_translator_that_transformers_reads(tmp_path: Path, typed: Any) -> None:
    model = make_translator("transformer-tiny", pre_norm=False)
    found = lines_of(model, tmp_path / "m")
    assert typed(found["Shell"]) == model.translate([TEXT])[0].strip()
    assert printed(found["transformers"]).startswith("[")


def test_what_transformers_cannot_read_is_not_promised(tmp_path: Path) -> None:
    model = make_translator("rnn-small")
    assert set(lines_of(model, tmp_path / "m")) == {"Shell", "Python"}
    assert {one.where for one in usage(qkv.load("en-de", device="cpu"), "en-de")} == {"Shell", "Python"}


def test_a_model_with_tasks_names_one(tmp_path: Path, typed: Any) -> None:
    from qkv.checkpoints.text_tasks import TextTask
    from qkv.predict import Model

    contents = make_translator("t5-small").contents
    tone, french = TextTask(kind="classify", prefix="tone: "), TextTask(kind="translate", prefix="to French: ")
    named = Model(replace(contents, text_tasks={"tone": tone}), device="cpu")
    found = lines_of(named, tmp_path / "a")
    assert found["Shell"].endswith(" --task tone")
    said = named.translate([TEXT], task="tone")
    assert typed(found["Shell"]) == said[0]
    assert printed(found["Python"]) == str(said)
    assert f'"tone: {TEXT}"' in found["transformers"]
    both = lines_of(Model(replace(contents, text_tasks={"tone": tone, "fr": french}), device="cpu"), tmp_path / "b")
    assert "--task" not in both["Shell"]
    assert f'"to French: {TEXT}"' in both["transformers"]
