"""`qkv evaluate` with a report, the confusion matrix and the worst mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.predict.conftest import make_translator
from tests.predict.readers import make_reader

ROWS = [f"the {'cat' if i % 3 else 'dog'} sat on mat {i}\t{'good' if i % 3 else 'bad'}" for i in range(30)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier, a regressor, a translator and data for the first."""
    folder = tmp_path_factory.mktemp("models")
    make_reader("pool", "classify", labels=("bad", "good")).save(folder / "classes")
    make_reader("pool", "regress").save(folder / "numbers")
    make_translator("transformer-tiny").save(folder / "fr")
    (folder / "data.tsv").write_text("\n".join(["text\tlabel", *ROWS]) + "\n")
    return folder


def test_nothing_asked_prints_scores_alone(shell: Any, place: Path) -> None:
    plain = shell("evaluate", place / "classes", place / "data.tsv")
    assert plain.code == 0
    assert "correct \\ predicted" not in plain.out
    found = json.loads(shell("evaluate", place / "classes", place / "data.tsv", "--json").out)
    assert set(found) == {"accuracy", "f1", "matthews"}


def test_the_matrix_and_the_mistakes_are_printed(shell: Any, place: Path) -> None:
    done = shell("evaluate", place / "classes", place / "data.tsv", "--confusion", "--errors", 3)
    assert done.code == 0
    assert done.out.startswith("metric")
    assert "correct \\ predicted  good  bad\n" in done.out
    assert "class  precision  recall      f1  support  predicted\n" in done.out
    assert "\n3. " in done.out
    assert "\n4. " not in done.out
    assert "   text     the " in done.out


def test_json_has_all_of_it(shell: Any, place: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    asked = ["--confusion", "--errors", 2, "--report", file, "--json"]
    found = json.loads(shell("evaluate", place / "classes", place / "data.tsv", *asked).out)
    assert set(found) == {"accuracy", "f1", "matthews", "confusion", "classes", "errors", "report"}
    assert found["confusion"]["labels"] == ["good", "bad"]
    assert sum(map(sum, found["confusion"]["counts"])) == 30
    assert [one["support"] for one in found["classes"]] == [20, 10]
    assert len(found["errors"]) == 2
    assert found["report"] == str(file)


def test_a_report_on_any_model(shell: Any, place: Path, tmp_path: Path) -> None:
    done = shell("evaluate", place / "classes", place / "data.tsv", "--report", tmp_path / "r.html")
    assert done.code == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert page.endswith("</html>\n")
    assert page.count("<li>") == len(
        json.loads(shell("evaluate", place / "classes", place / "data.tsv", "--errors", 20, "--json").out)["errors"]
    )
    assert f"qkv classify {place / 'classes'}" in page
    assert 'id="curves"' not in page
    (place / "a.en").write_text("A cat.\n")
    (place / "a.fr").write_text("Un chat.\n")
    done = shell(
        "evaluate", place / "fr", place / "a.en", place / "a.fr", "--report", tmp_path / "t.html", "--errors", 1
    )
    assert done.code == 0
    assert "1. " in done.out
    assert "the source, copied" in (tmp_path / "t.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        ("numbers", ["--confusion"], "this bert model predicts no classes: leave out --confusion, or use --errors"),
        ("fr", ["--confusion"], "this transformer model predicts no classes"),
        ("classes", ["--errors", "-1"], "--errors must be at least 1, got -1"),
        ("classes", ["--report", "no/such/folder/r.html"], "no/such/folder/r.html cannot be written"),
        ("classes", ["--report", "."], ". is a folder: give a regular file instead"),
    ],
)
def test_wrong_options_are_refused_before_any_work(
    shell: Any, place: Path, model: str, asked: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qkv.cli.evaluation.study", lambda *_, **__: pytest.fail("scored"))
    done = shell("evaluate", place / model, place / "data.tsv", *asked)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"qkv: {said}")
    assert done.err.count("\n") == 1


def test_a_language_model_has_no_single_answers(shell: Any, tmp_path: Path) -> None:
    import qkv
    from tests.tokenizers.conftest import train

    tokenizer = train("byte-bpe", specials="gpt")
    sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "ff_dim": 32, "max_length": 32}
    qkv.build("gpt2", vocab_size=tokenizer.vocab_size, **sizes).save(tmp_path / "gpt")
    for name, data in tokenizer.files().items():
        (tmp_path / "gpt" / name).write_bytes(data)
    (tmp_path / "gpt" / "qkv_digests.json").unlink()
    (tmp_path / "text.txt").write_text("The cat sat.\nThe dog ran home.\n")
    done = shell("evaluate", tmp_path / "gpt", tmp_path / "text.txt", "--errors", 3)
    assert done.code == 2
    assert "leave out --confusion and --errors" in done.err
    done = shell("evaluate", tmp_path / "gpt", tmp_path / "text.txt", "--report", tmp_path / "r.html")
    assert done.code == 0
    assert "perplexity" in (tmp_path / "r.html").read_text("utf-8")
