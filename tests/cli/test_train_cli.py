"""`qkv train`, `qkv evaluate` and `qkv translate`, once right and once wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qkv.cli import main
from qkv.cli.main import app
from qkv.common import progress
from qkv.common.errors import QkvError, UsageError
from qkv.data.phrasebook import phrasebook
from tests.common.terminal import terminal

runner = CliRunner()


def run(*arguments: str) -> str:
    found = runner.invoke(app, list(arguments), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "run"
    said = run("train", "phrasebook", "--debug", "--json", "--set", f"out={out}", "train.workers=1")
    assert json.loads(said)["ended"] == "done"
    return out


@pytest.fixture
def aligned(tmp_path: Path) -> list[str]:
    """Twenty sentences in two files."""
    files = [tmp_path / "test.en", tmp_path / "test.fr"]
    for file, lines in zip(files, zip(*phrasebook(20, 9), strict=True), strict=True):
        file.write_text("\n".join(lines) + "\n")
    return [str(file) for file in files]


def test_train_then_translate_then_evaluate(trained: Path, aligned: list[str]) -> None:
    lines = run("translate", str(trained), "The cat sleeps.", "", "A dog.").split("\n")
    assert len(lines) == 4  # three lines and the end
    assert lines[1] == ""
    row = json.loads(run("translate", str(trained), "The cat sleeps.", "--json"))
    assert row.keys() == {"text", "translation"}
    assert "nrefs:1" in run("evaluate", str(trained), *aligned)
    assert json.loads(run("evaluate", str(trained), *aligned, "--json"))["BLEU"]["count"] == 20


def test_a_header_is_not_a_pair(trained: Path, aligned: list[str], tmp_path: Path) -> None:
    import csv

    pairs = list(zip(*(Path(file).read_text().splitlines() for file in aligned), strict=True))
    said = json.loads(run("evaluate", str(trained), *aligned, "--json"))
    for header in (["en", "fr"], ["source", "target"], ["id", "English", "French"]):
        with (tmp_path / "table.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *([i, *pair][-len(header) :] for i, pair in enumerate(pairs))])
        assert json.loads(run("evaluate", str(trained), str(tmp_path / "table.csv"), "--json")) == said


def test_resume_of_a_run_that_is_done(trained: Path) -> None:
    again = ("--set", f"out={trained}", "train.workers=1")
    assert json.loads(run("train", "phrasebook", "--debug", "--json", "--resume", *again))["steps"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "phrasebok"), "did you mean 'phrasebook'"),
        (("train", "phrasebook", "--set", "train.stps=1"), "did you mean 'train.steps'"),
        (("train", "translate"), "data.train is empty"),
        (("train", "translate", "--set", "data.train=[no.en,no.de]"), "there is no file no.en"),
        (("train", "adapt", "--set", "data.train=[x.txt]"), "exactly one of model.preset and model.init"),
        (("train", "phrasebook", "nonsense"), "--set takes key=value, got 'nonsense'"),
        (("evaluate", "nowhere", "x"), "nowhere is not a folder"),
        (("translate", "nowhere", "x"), "nowhere is not a folder"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as error:
        runner.invoke(app, list(arguments), catch_exceptions=False)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_files_of_other_lengths(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    files = f"data.train=[{tmp_path / 'a.en'},{tmp_path / 'a.de'}]"
    with pytest.raises(QkvError, match=r"3.*2|2.*3"):
        runner.invoke(app, ["train", "translate", "--set", files, f"out={tmp_path / 'run'}"], catch_exceptions=False)


def test_a_model_that_is_not_a_translator(bert_folder: Path) -> None:
    with pytest.raises(UsageError, match="this bert is not a translator"):
        runner.invoke(app, ["translate", str(bert_folder), "x"], catch_exceptions=False)


def test_bars_are_shown_on_a_terminal_and_the_answer_stays_alone(
    aligned: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    changes = [f"out={tmp_path / 'run'}", "train.workers=1", "data.train=[phrasebook:train:300]"]
    with terminal() as training:
        main.train("phrasebook", changes=changes, debug=True, as_json=True, device="cpu")
    for what in ("reading texts", "tokenising train", "tokenising valid", "training"):
        assert what in training.seen
    assert json.loads(training.answer)["steps"] == 4
    with terminal() as evaluating:
        main.evaluate(str(tmp_path / "run"), aligned, as_json=True, device="cpu")
    assert "evaluating" in evaluating.seen
    assert "20/?" in evaluating.seen
    assert json.loads(evaluating.answer)["BLEU"]["count"] == 20


def test_a_file_as_standard_error_gets_no_bar(trained: Path, aligned: list[str]) -> None:
    found = runner.invoke(app, ["evaluate", str(trained), *aligned], catch_exceptions=False)
    assert "evaluating" not in found.stderr
