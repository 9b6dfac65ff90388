"""What a finished run tells: report.html, scores.json and README.md, which never cost a trained model."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv.checkpoints.update import DIGESTS
from qkv.common import disk
from qkv.exams.evaluate import evaluate
from qkv.exams.report.card import MARK
from qkv.recipes.schema import read_recipe
from qkv.runs import report as reporting
from qkv.runs.run import run_recipe, score_test
from qkv.runs.search import search
from qkv.tasks.split import validation_examples
from qkv.tasks.table import read_task

WRITTEN = ("report.html", "scores.json", "README.md")
SMALL = ["model.preset=bert-tiny", "model.set.dim=16", "model.set.ff_dim=16", "model.set.num_layers=1"]
SMALL += ["tokenizer.vocab_size=80", "train.workers=0", "train.tokens=400", "train.steps=4", "data.max_length=64"]


def table(file: Path, count: int, seed: int = 0, long: bool = False) -> str:
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        good = draw.random() < 0.7
        words = " ".join(draw.choices(["fine", "warm"] if good else ["dull", "cold"], k=200 if long else 5))
        rows.append(f"{words} number {number}\t{'good' if good else 'bad'}")
    file.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return str(file)


def run(out: Path, *changes: str, name: str = "classify", resume: bool = False, **options: Any) -> list[str]:
    said: list[str] = []
    recipe = read_recipe(name, [*SMALL, f"out={out}", *changes])
    outcome = run_recipe(recipe, resume=resume, device="cpu", say=said.append, **options)
    assert outcome.finished
    return said


def scores(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "scores.json").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("data")
    return {"train": table(place / "train.tsv", 200), "test": table(place / "test.tsv", 60, 1)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, data: dict[str, str]) -> Path:
    """A run without test files."""
    out = tmp_path_factory.mktemp("runs") / "reviews"
    run(out, f"data.train={data['train']}", "data.held_out=0.2")
    return out


def test_validation_examples_are_scored_without_test_files(finished: Path, data: dict[str, str]) -> None:
    found = scores(finished)
    recipe = read_recipe(str(finished / "recipe.toml"))
    held = list(validation_examples(read_task("classify", {}, recipe.data)))
    assert (found["data"], found["examples"]) == ("validation", len(held))
    said = [label.label for label in qkv.load(finished, device="cpu").classify([one.text for one in held])]
    right = sum(label == one.labels[0] for label, one in zip(said, held, strict=True))
    assert found["scores"]["accuracy"]["value"] == pytest.approx(right / len(held))
    assert found["trivial"].keys() == {"always 'good'"}
    page = (finished / "report.html").read_text("utf-8")
    assert f"Validation examples (all {len(held)}), held out from the training files." in page
    assert 'id="curves"' in page
    assert 'id="cost"' in page
    assert "warmup = 0.1" in page  # the recipe as resolved
    card = (finished / "README.md").read_text("utf-8")
    assert card.startswith(MARK)
    assert f"qkv classify {finished}" in card


def test_the_model_folder_does_not_know_the_report(finished: Path) -> None:
    assert not set(disk.listed(finished / DIGESTS) or ()) & set(WRITTEN)
    before = {name: (finished / name).read_bytes() for name in WRITTEN}
    model = qkv.load(finished, device="cpu")
    model.save(finished)
    assert {name: (finished / name).read_bytes() for name in WRITTEN} == before
    assert not {path.name for path in (finished / "best").iterdir()} & set(WRITTEN)
    qkv.load(finished, device="cpu")


def test_a_run_can_start_from_a_folder_with_a_report(finished: Path, data: dict[str, str], tmp_path: Path) -> None:
    more = [f"data.train={data['train']}", "data.held_out=0.2", f"model.init={finished}", "model.preset="]
    said: list[str] = []
    recipe = read_recipe("classify", [f"out={tmp_path / 'next'}", "train.steps=1", "train.workers=0", *more])
    run_recipe(recipe, device="cpu", say=said.append)
    assert scores(tmp_path / "next")["examples"]


def test_test_files_are_scored_once_and_printed(
    tmp_path: Path, data: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = [f"data.train={data['train']}", f"data.test={data['test']}", "data.held_out=0.2"]
    run(tmp_path / "run", *changes)
    found = scores(tmp_path / "run")
    assert (found["data"], found["examples"]) == ("test", 60)
    recipe = read_recipe(str(tmp_path / "run" / "recipe.toml"))
    expected = evaluate(qkv.load(tmp_path / "run", device="cpu"), [data["test"]])
    monkeypatch.setattr("qkv.runs.run.evaluate", lambda *_, **__: pytest.fail("scored twice"))
    assert score_test(recipe, device="cpu") == expected
    monkeypatch.undo()
    (tmp_path / "run" / "scores.json").unlink()
    assert score_test(recipe, device="cpu") == expected  # without a report, they are computed


def test_a_large_validation_set_is_sampled(
    tmp_path: Path, data: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "SAMPLE", 25)
    run(tmp_path / "run", f"data.train={data['train']}", f"data.valid={data['test']}")
    assert scores(tmp_path / "run")["examples"] == 25
    assert "(25 of 60, drawn at random), from" in scores(tmp_path / "run")["about"]


def test_the_sample_is_uniform_and_repeatable() -> None:
    first, count = reporting._sample(range(100), 10)
    assert (first, count) == reporting._sample(range(100), 10)
    assert len(set(first)) == 10
    assert max(first) > 50
    assert reporting._sample(range(5), 10) == ([0, 1, 2, 3, 4], 5)
    assert reporting._sample([], 10) == ([], 0)


def test_a_card_of_the_users_own_is_left_alone(tmp_path: Path, data: dict[str, str]) -> None:
    changes = [f"data.train={data['train']}", "data.held_out=0.2"]
    run(tmp_path / "run", *changes)
    (tmp_path / "run" / "README.md").write_text("# Mine\n")
    (tmp_path / "run" / "report.html").write_text("old")
    (tmp_path / "run" / "outcome.json").unlink()  # the run was killed before it was closed
    run(tmp_path / "run", *changes, resume=True)
    assert (tmp_path / "run" / "README.md").read_text() == "# Mine\n"
    assert (tmp_path / "run" / "report.html").read_text() != "old"


def test_resuming_a_finished_run_writes_the_same_report(tmp_path: Path, data: dict[str, str]) -> None:
    changes = [f"data.train={data['train']}", "data.held_out=0.2"]
    run(tmp_path / "run", *changes)
    before = scores(tmp_path / "run")
    run(tmp_path / "run", *changes, resume=True)
    after = scores(tmp_path / "run")
    assert {**after, "energy": 0} == {**before, "energy": 0}


@pytest.mark.parametrize(
    "error", [RuntimeError("out of\nmemory"), OSError(28, "No space left on device"), KeyError("x")]
)
def test_a_failed_report_is_one_line_and_no_lost_model(
    tmp_path: Path, data: dict[str, str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(reporting, "report_of", fail)
    said = run(tmp_path / "run", f"data.train={data['train']}", "data.held_out=0.2")
    lines = [line for line in said if "could not be written" in line]
    assert len(lines) == 1
    assert "\n" not in lines[0]
    assert lines[0].endswith("the model itself is complete")
    assert not (tmp_path / "run" / "report.html").exists()
    assert qkv.load(tmp_path / "run", device="cpu").labels == ("bad", "good")


def test_test_files_that_cannot_be_scored_leave_the_rest_of_the_report(tmp_path: Path, data: dict[str, str]) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("text\tlabel\nfine\tunheard\n")
    said = run(tmp_path / "run", f"data.train={data['train']}", f"data.test={bad}", "data.held_out=0.2")
    assert [line for line in said if line.startswith("qkv: no scores in the report: ") and "unheard" in line]
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert 'id="curves"' in page
    assert 'id="scores"' not in page
    assert "The scores could not be computed" in page
    assert "scores" not in scores(tmp_path / "run")


def test_texts_that_are_cut_are_told_in_the_report(tmp_path: Path) -> None:
    train = table(tmp_path / "long.tsv", 60, long=True)
    said = run(tmp_path / "run", f"data.train={train}", "data.held_out=0.3")
    count = scores(tmp_path / "run")["examples"]
    assert scores(tmp_path / "run")["notes"] == [f"{count} of the texts were cut to 64 tokens."]
    assert not [line for line in said if "could not" in line]


def test_a_language_model_has_curves_and_a_perplexity(tmp_path: Path, data: dict[str, str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"the cat number {n} sat on the mat .\n" for n in range(300)))
    recipe = read_recipe("pretrain-gpt", [f"data.train={text}", f"out={tmp_path / 'run'}"], debug=True)
    run_recipe(recipe, device="cpu", say=lambda _: None)
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "perplexity" in page
    assert 'id="mistakes"' not in page
    assert "scores" not in scores(tmp_path / "run")
    assert scores(tmp_path / "run")["validation"]["loss"] > 0
    tested = read_recipe(
        "pretrain-gpt", [f"data.train={text}", f"data.test={text}", f"out={tmp_path / 'tested'}"], debug=True
    )
    run_recipe(tested, device="cpu", say=lambda _: None)
    assert "perplexity" in next(iter(scores(tmp_path / "tested")["scores"]))


def test_a_module_of_ones_own_has_a_report_without_scores(tmp_path: Path, data: dict[str, str]) -> None:
    from qkv.models import catalogue
    from qkv.runs.own import Own

    said = run(
        tmp_path / "run",
        f"data.train={data['train']}",
        "data.held_out=0.2",
        own=Own(model=lambda c: catalogue.build(c)),
    )
    assert 'id="curves"' in (tmp_path / "run" / "report.html").read_text("utf-8")
    assert not [line for line in said if "could not" in line]


def test_a_search_reports_on_the_run_it_keeps(tmp_path: Path, data: dict[str, str]) -> None:
    recipe = read_recipe(
        "classify", [*SMALL, f"out={tmp_path / 'run'}", f"data.train={data['train']}", "data.held_out=0.2"]
    )
    search(recipe, device="cpu", say=lambda _: None)
    assert all((tmp_path / "run" / name).is_file() for name in WRITTEN)
    assert not list((tmp_path / "run").glob("search-*/report.html"))
    assert f"qkv classify {tmp_path / 'run'} " in (tmp_path / "run" / "README.md").read_text("utf-8")


def test_a_folder_that_is_not_kept_gets_no_report(
    finished: Path, data: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qkv.runs.run.write_report", lambda *_, **__: pytest.fail("a report for nobody"))
    changes = {"train.steps": 1, "train.workers": 0, "data.held_out": 0.2}
    model = qkv.finetune(finished, train=data["train"], say=lambda _: None, device="cpu", **changes)
    assert isinstance(model.module, torch.nn.Module)
