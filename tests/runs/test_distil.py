"""`qkv distill`: from a teacher's folder to a student's, which resumes bit for bit; and teachers that do not fit."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv.checkpoints.folder import read_folder
from qkv.common.errors import UsageError
from qkv.objectives.distill import DistillConfig
from qkv.recipes.schema import read_recipe
from qkv.runs.distil import Asked, student_recipe, train_student
from qkv.runs.run import run_recipe
from qkv.runs.student import default_layers, even_layers, student_of
from qkv.runs.student_report import comparison_of
from tests.runs.killing import cut_off

GOOD, BAD = ["great", "fine", "lovely", "superb"], ["awful", "dull", "poor", "boring"]
WORDS = ["the", "film", "is", "a", "story", "of", "plot", "and", "cast", "with", "music"]
SIZES = {"num_layers": 3, "dim": 32, "num_heads": 4, "ff_dim": 48}
QUIET: dict[str, Any] = {"device": "cpu", "say": lambda _: None}


def sentence(draw: random.Random, words: list[str]) -> str:
    row = [draw.choice(WORDS) for _ in range(draw.randint(2, 6))]
    row.insert(draw.randrange(len(row)), draw.choice(words))
    return " ".join(row)


def write(file: Path, count: int = 120, names: tuple[str, str] = ("pos", "neg"), seed: int = 0) -> Path:
    draw = random.Random(seed)
    rows = [(sentence(draw, GOOD if n % 2 else BAD), names[0] if n % 2 else names[1]) for n in range(count)]
    file.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return file


def run(name: str, out: Path, *changes: str, resume: bool = False) -> Path:
    recipe = read_recipe(name, [*changes, f"out={out}", "log.track=none", "train.workers=0"], debug=True)
    run_recipe(recipe, resume=resume, **QUIET)
    return out


def model_set(**sizes: Any) -> list[str]:
    return [f"model.set.{key}={value}" for key, value in (SIZES | sizes).items()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("distil")


@pytest.fixture(scope="module")
def teacher(place: Path) -> Path:
    data = write(place / "train.tsv")
    changes = ["model.preset=bert-tiny", *model_set(), "train.steps=80", "train.tokens=400", "optim.lr=4e-3"]
    return run("classify", place / "teacher", f"data.train={data}", *changes, "tokenizer.vocab_size=80")


def test_a_teacher_and_data_make_a_student(place: Path, teacher: Path) -> None:
    said: list[str] = []
    test = write(place / "test.tsv", seed=5)
    made = qkv.distill(teacher, place / "train.tsv", test=test, out=place / "student", device="cpu", say=said.append)
    assert made.config.num_layers == 1
    assert made.labels == qkv.load(teacher, device="cpu").labels
    assert made.tokenizer.fingerprint == read_folder(teacher).tokenizer.fingerprint
    accuracy = made.evaluate(test)[0]
    assert accuracy.value > 0.9
    assert "the student begins with 1 of 3 layers of the stack: 0" in said
    found = comparison_of(str(place / "student"))
    assert found is not None
    assert found.scores["accuracy"][1] == pytest.approx(accuracy.value)
    assert found.payback.student.parameters < found.payback.teacher.parameters
    assert found.payback.training_joules > 0
    page = (place / "student" / "report.html").read_text()
    assert "Teacher and student" in page
    assert "times as fast" in page
    kept = json.loads((place / "student" / "student.json").read_text())
    assert kept["scores"]["accuracy"]["student"] == pytest.approx(accuracy.value)


def test_without_data_it_learns_from_the_files_of_its_teacher(place: Path, teacher: Path) -> None:
    recipe, outcome = train_student(teacher, out=place / "again", layers=2, debug=True, **QUIET)
    assert outcome.finished
    assert recipe.distill.layers == (0, 2)
    assert [Path(file).name for file in recipe.data.train] == ["train.tsv"]
    assert qkv.load(place / "again", device="cpu").config.num_layers == 2


MATCHED = ["distill.hidden=1", "distill.attention=1", "model.preset=bert-tiny", "objective.r_drop=0"]


@pytest.mark.parametrize(
    "changes", [MATCHED, ["distill.layers=[0,2]", "model.init=TEACHER"]], ids=["matched", "layers"]
)
def test_resuming_a_student_is_bit_for_bit(place: Path, teacher: Path, tmp_path: Path, changes: list[str]) -> None:
    asked = [f"data.train={place / 'train.tsv'}", f"distill.teacher={teacher}", "train.steps=8", "train.save_every=2"]
    asked += ["train.keep=100", "train.keep_checkpoints=true", "train.ema=0.9", "train.keep_best=false"]
    asked += [change.replace("TEACHER", str(teacher)) for change in changes]
    asked += model_set(num_layers=2, dim=24, num_heads=3, dropout=0.1) if changes is MATCHED else []
    run("classify", tmp_path / "whole", *asked)
    run("classify", tmp_path / "cut", *asked)
    cut_off(tmp_path / "cut", 4, 8)
    run("classify", tmp_path / "cut", *asked, resume=True)
    a, b = (read_folder(tmp_path / name).model.state_dict() for name in ("whole", "cut"))
    assert not [name for name in a if "projections" in name]
    assert all(torch.equal(a[name], b[name]) for name in a)
    lines = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()
    parts = {name for line in lines for name in json.loads(line)}
    assert "soft" in parts
    assert ("hidden" in parts) == ("attention" in parts) == (changes is MATCHED)
    assert "valid_soft" not in parts
    assert read_recipe(str(tmp_path / "whole" / "recipe.toml")).train.compile == (
        "no" if changes is MATCHED else "record"
    )


def test_a_student_keeps_the_order_of_the_teachers_classes(place: Path, teacher: Path) -> None:
    """A class that the files do not have stays, and a class that the teacher does not know is refused."""
    three = place / "three.tsv"
    rows = (place / "train.tsv").read_text().splitlines()
    three.write_text("\n".join([*rows, *(f"so so {n}\tmixed" for n in range(30))]) + "\n")
    changes = ["model.preset=bert-tiny", *model_set(), "tokenizer.vocab_size=80"]
    wide = run("classify", place / "wide", f"data.train={three}", *changes)
    recipe, _ = train_student(wide, place / "train.tsv", out=place / "narrow", debug=True, **QUIET)
    assert qkv.load(recipe.out, device="cpu").labels == qkv.load(wide, device="cpu").labels == ("mixed", "neg", "pos")
    with pytest.raises(
        UsageError, match=r"distill\.teacher: .*teacher does not know the label 'mixed' \(it knows neg, pos"
    ):
        train_student(teacher, three, out=place / "never", debug=True, **QUIET)
    assert not (place / "never").exists()


def test_teachers_that_do_not_fit_are_refused(place: Path, teacher: Path) -> None:
    data = f"data.train={place / 'train.tsv'}"
    small = run("classify", place / "small", data, "model.preset=bert-tiny", *model_set(), "tokenizer.vocab_size=60")
    cases = {
        r"reads other tokens than model\.init \(it has 80 tokens, the student 60\)": [f"model.init={small}"],
        r"distill\.layers takes rising numbers of layers from 0 to 2, got \[2, 5\]": [
            f"model.init={teacher}", "distill.layers=[2,5]"],
        r"distill\.layers are those of model\.init": ["model.preset=bert-tiny", "distill.layers=[1]"],
        r"distill\.map takes a layer of the teacher, from 0 to 2, or -1 for each of the 2 layers": [
            "model.preset=bert-tiny", "distill.hidden=1", "distill.map=[0,4]"],
        r"distill\.weight must be at least 0": [f"model.init={teacher}", "distill.weight=-1"],
        r"train\.compile = yes is not for a run with a teacher": [f"model.init={teacher}", "train.compile=yes"],
    }  # fmt: skip
    for message, changes in cases.items():
        with pytest.raises(UsageError, match=message):
            run("classify", place / "no", data, f"distill.teacher={teacher}", *changes)
        assert not (place / "no").exists()
    with pytest.raises(UsageError, match=r"distill\.hidden needs a teacher"):
        run("classify", place / "no", data, "model.preset=bert-tiny", "distill.hidden=1")
    with pytest.raises(UsageError, match="a student has from 1 to 3 layers of the stack, got 4"):
        train_student(teacher, place / "train.tsv", layers=4, out=place / "no", **QUIET)


def test_the_best_weights_of_a_run_have_its_recipe(place: Path, teacher: Path) -> None:
    whole, best = (
        student_recipe(Asked(teacher=str(folder), files={}), {}, lambda _: None)
        for folder in (teacher, teacher / "best")
    )
    assert best.data == whole.data
    assert best.data.train == (str(place / "train.tsv"),)


def test_the_layers_of_a_student() -> None:
    assert [even_layers(12, count) for count in (1, 2, 3, 4)] == [(0,), (0, 11), (0, 6, 11), (0, 4, 7, 11)]
    assert [default_layers(depth, "decoder") for depth in (1, 2, 4, 6, 12)] == [1, 1, 1, 2, 4]
    assert [default_layers(depth, "stack") for depth in (1, 6)] == [1, 2]
    assert default_layers(6, "encoder") == 6  # of an encoder-decoder; an encoder alone is a "stack"
    whole = qkv.build("transformer-tiny", vocab_size=30, num_layers=3, num_decoder_layers=2, device="cpu").contents
    found = student_of(whole, DistillConfig(layers=(0, 2), decoder_layers=(1,)))
    assert (found.config.num_layers, found.config.num_decoder_layers) == (2, 1)
    mine, theirs = found.model.state_dict(), whole.model.state_dict()
    for name, tensor in mine.items():
        old = name.replace("encoder.blocks.1", "encoder.blocks.2").replace("decoder.blocks.0", "decoder.blocks.1")
        assert torch.equal(tensor, theirs[old])


def test_old_keys_of_images_are_moved() -> None:
    with pytest.warns(UserWarning, match=r"objective\.teacher and its keys are now in \[distill\]"):
        recipe = read_recipe("image", ["objective.teacher=folder", "objective.alpha=0.3"])
    assert (recipe.distill.teacher, recipe.distill.weight, recipe.distill.targets) == ("folder", 0.3, "hard")
    assert "teacher" not in recipe.objective
