"""A teacher's answers as training data: those of the verbs, made once, resumable; validation has the real answers."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import qkv
from qkv.checkpoints.folder import read_folder, write_folder
from qkv.checkpoints.sentence import SentenceModel
from qkv.cli.main import app
from qkv.common import disk
from qkv.common.errors import QkvError, UsageError
from qkv.data.config import DataConfig
from qkv.data.phrasebook import phrasebook
from qkv.predict import Model
from qkv.recipes.schema import read_recipe
from qkv.runs import answers
from qkv.runs.distil import train_student
from qkv.runs.own import Own
from qkv.runs.payback import payback
from qkv.runs.run import run_recipe
from qkv.runs.search import search
from qkv.runs.student_report import comparison_of
from qkv.tasks.table import TASKS, read_task
from tests.runs.killing import cut_off
from tests.runs.test_distil import BAD, GOOD, QUIET, model_set, run, sentence, write

PAIRS = list(phrasebook(90, 5))
SMALL = ["tokenizer.vocab_size=80", "train.tokens=400", "optim.lr=4e-3"]
pytestmark = pytest.mark.filterwarnings("ignore::qkv.common.errors.Shortened")  # tiny models read 32 tokens
KINDS = ("classify", "pairs", "several", "regress", "tag", "translate", "embeddings")


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def make(kind: str, place: Path) -> Path:
    """Train a tiny teacher."""
    draw, folder = random.Random(1), place / kind
    base = ["model.preset=bert-tiny", *model_set(dim=16, ff_dim=16, num_layers=2), *SMALL, "data.held_out=0.1"]
    few = [*base, "train.steps=6"]
    texts = [sentence(draw, GOOD if n % 2 else BAD) for n in range(60)]
    data = place / f"{kind}.tsv"
    if kind == "classify":
        return run(kind, folder, f"data.train={write(place / 'train.tsv')}", *base, "train.steps=60")
    if kind == "pairs":
        lines = [
            f"{a}\t{b}\t{'yes' if n % 2 else 'no'}" for n, (a, b) in enumerate(zip(texts, texts[::-1], strict=True))
        ]
        data.write_text("\n".join(["premise\thypothesis\tlabel", *lines]) + "\n")
        return run("pairs", folder, f"data.train={data}", *base, "train.steps=80")
    if kind == "several":
        labels = ["a" if n % 2 else "a;b" for n in range(len(texts))]
        data.write_text("text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in zip(texts, labels, strict=True)))
        return run("classify", folder, f"data.train={data}", *base, "train.steps=80", "data.separator=;")
    if kind == "regress":
        data.write_text("text\tscore\n" + "".join(f"{text}\t{len(text) / 10}\n" for text in texts))
        return run(kind, folder, f"data.train={data}", *few)
    if kind == "tag":
        tagged = ["\n".join(f"{w} {'B-ADJ' if w in GOOD + BAD else 'O'}" for w in t.split()) for t in texts]
        data.write_text("\n\n".join(tagged) + "\n")
        return run(kind, folder, f"data.train={data}", *base, "train.steps=40")
    files = [place / f"{kind}.{side}" for side in ("en", "fr")]
    for number, file in enumerate(files):
        file.write_text("".join(f"{pair[number]}\n" for pair in PAIRS))
    if kind == "embeddings":
        return run("sentence-embeddings", folder, f"data.train=[{files[0]},{files[1]}]", *few)
    sizes = model_set(dim=16, ff_dim=16, num_layers=2)
    small = ["data.valid=[phrasebook:valid:10]", "tokenizer.vocab_size=120", "train.steps=30", "optim.lr=4e-3"]
    return run("phrasebook", folder, f"data.train=[{files[0]},{files[1]}]", *sizes, *small)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module")
def teachers(place: Path) -> Callable[[str], Path]:
    made: dict[str, Path] = {}
    return lambda kind: made.setdefault(kind, made.get(kind) or make(kind, place))


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    draw = random.Random(7)
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{sentence(draw, GOOD if n % 2 else BAD)}\n" for n in range(40)))
    return file


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many texts the teacher is asked, call by call; small parts."""
    found: list[int] = []

    def watch(task: Any) -> None:
        plain = task.answered

        def answered(self: Any, examples: Any, model: Any, labels: Any) -> Any:
            found.append(len(examples))
            return plain(self, examples, model, labels)

        monkeypatch.setattr(task, "answered", answered)

    for task in {cls for cls in TASKS.values() if cls.answerable}:
        watch(task)
    monkeypatch.setattr(answers, "PART", 8)
    return found


def student(teacher: Path, out: Path, texts: Any = (), resume: bool = False, **changes: Any) -> None:
    small = {"train.steps": 4, "log.track": "none", "train.workers": 0, "data.held_out": 0.1, "objective.r_drop": 0}
    if teacher.name in ("embeddings", "regress", "bad"):
        del small["objective.r_drop"]
    how = {key: changes.pop(key) for key in ("data", "valid", "test") if key in changes}
    data = how.pop("data", None)
    if teacher.name == "translate":  # an answer of a teacher that has hardly learned may be too long
        how = {"valid": "phrasebook:valid:10"} | how
    made = train_student(
        teacher, data, texts=texts, out=out, resume=resume, debug=True, **how, **QUIET, **(small | changes)
    )
    assert made[1].finished


def said(model: Model, kind: str, texts: list[str], others: list[str]) -> list[Any]:
    """Answer with the verb that a user calls."""
    if kind == "tag":
        found = model.tag([text.split() for text in texts], words=True)
        return [[word.label for word in words] for words in found]
    if kind == "translate":
        return model.translate(texts)
    if kind == "embeddings":
        a, b = (model.embed(side, normalize=True) for side in (texts, others))
        return list(np.einsum("nd,nd->n", a, b))
    found = model.classify(texts, others if kind == "pairs" else None)
    if kind == "several":
        return [[label.label for label in labels] for labels in found]
    return found if kind == "regress" else [label.label for label in found]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_the_verb(
    kind: str, teachers: Callable[[str], Path], lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PART", 16)
    teacher = teachers(kind)
    if kind == "pairs":
        texts = lines.read_text().splitlines()
        lines.write_text("".join(f"{a}\t{b}\n" for a, b in zip(texts, texts[::-1], strict=True)))
    if kind == "translate":
        lines.write_text("".join(f"{a}\n" for a, _ in phrasebook(40, 9)))
    student(teacher, tmp_path / "student", [str(lines)])
    found = rows(tmp_path / "student" / "teacher" / "train.jsonl")
    sides = list(zip(*(line.split("\t") for line in lines.read_text().splitlines()), strict=True))
    texts, others = list(sides[0]), list(sides[-1])
    if kind == "embeddings":
        texts, others = texts[::2], texts[1::2]
    model = qkv.load(teacher, device="cpu")
    expected = said(model, kind, texts, others)
    if kind == "translate":  # an untrained teacher says nothing to some
        texts, expected = zip(*((a, b) for a, b in zip(texts, expected, strict=True) if b.strip()), strict=True)
    columns = [list(column) for column in zip(*(row.values() for row in found), strict=True)]
    if kind == "tag":
        assert columns[0] == [text.split() for text in texts]
    else:
        assert columns[0] == list(texts)
    if kind in ("pairs", "embeddings"):
        assert columns[1] == others
    if kind in ("regress", "embeddings"):
        assert columns[-1] == pytest.approx(expected, abs=1e-5)
    elif kind == "tag":
        assert [[tag[2:] for tag in tags] for tags in columns[-1]] == [[tag[2:] for tag in tags] for tags in expected]
    else:
        assert columns[-1] == list(expected)
    assert not list((tmp_path / "student" / "teacher").glob("part-*"))
    assert qkv.load(tmp_path / "student", device="cpu").config.num_layers == (2 if kind == "translate" else 1)


def test_answers_are_what_the_commands_print(teachers: Callable[[str], Path], lines: Path, tmp_path: Path) -> None:
    for kind, verb in (("classify", "classify"), ("translate", "translate")):
        student(teachers(kind), tmp_path / kind, [str(lines)])
        printed = CliRunner().invoke(
            app, [verb, str(teachers(kind)), "--file", str(lines), "--json", "--device", "cpu"]
        )
        told = [json.loads(line) for line in printed.stdout.splitlines()]
        key = "label" if kind == "classify" else "translation"
        expected = [row[key] for row in told if row[key].strip()]
        assert [list(row.values())[-1] for row in rows(tmp_path / kind / "teacher" / "train.jsonl")] == expected


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(read_folder(folder).model.state_dict())


@pytest.mark.parametrize("kind", ["classify", "translate"])
def test_stopped_anywhere_and_resumed_bit_for_bit(
    kind: str,
    teachers: Callable[[str], Path],
    lines: Path,
    tmp_path: Path,
    counted: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    teacher, whole, cut = teachers(kind), tmp_path / "whole", tmp_path / "cut"
    kept: dict[str, Any] = {"train.save_every": 1, "train.keep": 100, "train.keep_checkpoints": True}
    student(teacher, whole, [str(lines)], **kept)
    assert counted == [8, 8, 8, 8, 8]
    counted.clear()
    plain, done = disk.replace_file, list[Path]()

    def stop(file: Path, data: bytes) -> None:
        if file.name == "part-3.jsonl":
            raise KeyboardInterrupt
        done.append(file)
        plain(file, data)

    monkeypatch.setattr(disk, "replace_file", stop)
    with pytest.raises(KeyboardInterrupt):
        student(teacher, cut, [str(lines)], **kept)
    monkeypatch.setattr(disk, "replace_file", plain)
    assert sorted(path.name for path in (cut / "teacher").iterdir()) == [
        "answers.json",
        *(f"part-{n}.jsonl" for n in range(3)),
    ]
    assert counted == [8, 8, 8, 8]
    counted.clear()
    student(teacher, cut, [str(lines)], resume=True, **kept)
    assert counted == [8, 8]
    assert (cut / "teacher" / "train.jsonl").read_bytes() == (whole / "teacher" / "train.jsonl").read_bytes()
    cut_off(cut, 2, 3, 4)
    counted.clear()
    student(teacher, cut, [str(lines)], resume=True, **kept)
    assert counted == []
    a, b = weights(whole), weights(cut)
    assert all(torch.equal(a[name], b[name]) for name in a)
    student(teacher, cut, [str(lines)], resume=True, **kept)
    assert counted == []
    recipe = read_recipe(str(cut / "recipe.toml"))  # the run goes on without the texts, by its folder
    lines.unlink()
    cut_off(cut, 4)
    run_recipe(recipe, resume=True, **QUIET)
    assert all(torch.equal(a[name], tensor) for name, tensor in weights(cut).items())


def test_the_pay_back_point_counts_the_answers_also_those_before_a_stop(
    teachers: Callable[[str], Path],
    lines: Path,
    tmp_path: Path,
    counted: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    teacher, out = teachers("classify"), tmp_path / "out"
    plain = disk.replace_file

    def stop(file: Path, data: bytes) -> None:
        if file.name == "part-3.jsonl":
            raise KeyboardInterrupt
        plain(file, data)

    monkeypatch.setattr(disk, "replace_file", stop)
    with pytest.raises(KeyboardInterrupt):
        student(teacher, out, [str(lines)])
    monkeypatch.setattr(disk, "replace_file", plain)
    kept = disk.read_table(out / "teacher" / "answers.json", "answers")
    assert kept["energy"]["seconds"] > 0
    assert sum(kept["energy"]["joules"].values()) > 0
    kept["energy"]["joules"]["cpu"] = 5e6  # as if the three parts had taken hours
    plain(out / "teacher" / "answers.json", disk.table_bytes("answers", kept))
    student(teacher, out, [str(lines)], resume=True)
    assert sum(counted) == 48  # 16 texts after the stop, and 8 whose answers were lost
    spent = sum(disk.read_table(out / "teacher" / "answers.json", "answers")["energy"]["joules"].values())
    assert 5e6 < spent < 6e6
    found = comparison_of(str(out))
    assert found is not None
    assert found.payback.teaching_joules == pytest.approx(spent)
    assert found.payback.training_joules < 1e6
    cheap = replace(found.payback, teacher=replace(found.payback.teacher, joules=2.0),
                    student=replace(found.payback.student, joules=1.0))  # fmt: skip
    assert cheap.answers == pytest.approx(found.payback.training_joules + spent)
    assert "The student's training and the answers that it learned from cost 1.39 kWh" in cheap.told()
    later = payback(str(teacher), str(out), ["a film"], watts=10.0, device="cpu")
    assert later.teaching_joules == pytest.approx(spent)
    shutil.rmtree(out / "teacher")
    assert payback(str(teacher), str(out), ["a film"], watts=10.0, device="cpu").teaching_joules == 0


KILL = """
import os, sys
from qkv.common import disk
from qkv.runs import answers
from qkv.runs.distil import train_student

answers.PART = 8
teacher, lines, out, name, count = sys.argv[1:]
plain, left = disk.rename, int(count)


def rename(old, new):
    global left
    left -= new.name == name
    if new.name == name and left == 0:
        os._exit(9)
    plain(old, new)


disk.rename = rename
how = {"train.steps": 4, "log.track": "none", "train.workers": 0, "data.held_out": 0.1, "objective.r_drop": 0}
train_student(teacher, texts=[lines], out=out, debug=True, device="cpu", say=lambda line: None, **how)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count", "asked"),
    [("part-2.jsonl", 1, 24), ("train.jsonl", 1, 0), ("answers.json", 7, 0)],  # one for each part, before and after
)
def test_killed_while_writing(
    teachers: Callable[[str], Path], lines: Path, tmp_path: Path, counted: list[int], name: str, count: int, asked: int
) -> None:
    teacher, whole, out = teachers("classify"), tmp_path / "whole", tmp_path / "out"
    student(teacher, whole, [str(lines)])
    command = [sys.executable, "-c", KILL, str(teacher), str(lines), str(out), name, str(count)]
    assert subprocess.run(command, check=False, timeout=120).returncode == 9
    counted.clear()
    student(teacher, out, [str(lines)], resume=True)
    assert sum(counted) == asked
    names = [sorted(path.name for path in (place / "teacher").iterdir()) for place in (whole, out)]
    assert names[0] == names[1] == ["answers.json", "train.jsonl"]
    a, b = weights(whole), weights(out)
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_student_of_embeddings_comes_close_to_its_teacher(teachers: Callable[[str], Path], tmp_path: Path) -> None:
    draw = random.Random(3)
    texts = [sentence(draw, GOOD + BAD) for _ in range(81)]
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(texts[:61]) + "\n")
    found = []
    theirs = qkv.load(teachers("embeddings"), device="cpu").embed(texts[61:], normalize=True)
    for steps in (1, 60):
        changes = {"train.steps": steps, "optim.lr": 5e-3, "train.ema": 0.0, "train.keep_best": False}
        student(teachers("embeddings"), tmp_path / str(steps), [str(lines)], **changes)
        mine = qkv.load(tmp_path / str(steps), device="cpu").embed(texts[61:], normalize=True)
        found.append(1 - (mine * theirs).sum(-1).mean())
    assert found[1] < found[0] / 2
    last = rows(tmp_path / "60" / "teacher" / "train.jsonl")[-1]
    assert (last["sentence1"], last["sentence2"]) == (texts[60], texts[59])


def test_vectors_that_a_student_cannot_learn_are_refused(
    teachers: Callable[[str], Path], tmp_path: Path, lines: Path
) -> None:
    found = read_folder(teachers("embeddings"))
    for sentence_model, message in (
        (SentenceModel(declared=True, pooling=("first",)), "has first pooling"),
        (SentenceModel(declared=True, prompts={"q": "query: "}, default_prompt="q"), "has a prompt"),
    ):
        write_folder(replace(found, sentence=sentence_model), tmp_path / "bad")
        with pytest.raises(UsageError, match=f"{message}, and a student learns only the mean of the last states"):
            student(tmp_path / "bad", tmp_path / "out", [str(lines)], **{"model.init": str(tmp_path / "bad")})
        assert not (tmp_path / "out").exists()


def test_other_texts_are_not_mixed_in(
    teachers: Callable[[str], Path], place: Path, lines: Path, tmp_path: Path, counted: list[int]
) -> None:
    teacher, out = teachers("classify"), tmp_path / "student"
    with pytest.raises(QkvError, match=r"train\.tokens must be at least 1"):
        student(teacher, out, [str(lines)], **{"train.tokens": 0})
    assert not out.exists()
    with pytest.raises(UsageError, match=r"distill\.map takes"):  # after the answers, which are kept
        student(teacher, out, [str(lines)], **{"distill.hidden": 1, "distill.map": [9]})
    assert sorted(path.name for path in out.iterdir()) == ["teacher"]
    assert len(counted) == 5
    student(teacher, out, [str(lines)])
    assert len(counted) == 5
    changed = tmp_path / "other" / "lines.txt"
    changed.parent.mkdir()
    changed.write_text(lines.read_text() + "one more\n")
    for how in ({"texts": [str(changed)]}, {"texts": [str(lines)], "data": str(place / "train.tsv")}):
        with pytest.raises(UsageError, match="began with other texts, files or settings, or with another teacher"):
            student(teacher, out, resume=True, **how)
    with pytest.raises(UsageError, match="already holds a run"):
        student(teacher, out, [str(lines)])
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty and holds no run"):
        student(teacher, tmp_path / "busy", [str(lines)])
    assert len(counted) == 5
    assert [path.name for path in (tmp_path / "busy").iterdir()] == ["notes.txt"]


def test_real_answers_stay_in_validation_and_test(teachers: Callable[[str], Path], place: Path, tmp_path: Path) -> None:
    """With turned labels, the teacher's answers are the turned ones of nearly all examples: so both are told apart."""
    teacher = teachers("classify")
    turned = write(tmp_path / "turned.tsv", names=("neg", "pos"))
    test = write(tmp_path / "test.tsv", names=("neg", "pos"), count=20, seed=5)
    held = [line.split("\t")[0] for line in test.read_text().splitlines()[1:]]
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join([*held[:5], "a great film", "a dull film"]) + "\n")
    student(teacher, tmp_path / "out", [str(lines)], data=str(turned), test=str(test), **{"distill.answers": True})
    given = dict(line.split("\t") for line in turned.read_text().splitlines()[1:])
    folder = tmp_path / "out" / "teacher"
    valid, train = rows(folder / "valid.jsonl"), rows(folder / "train.jsonl")
    assert all(given[row["text"]] == row["label"] for row in valid)
    assert len(valid) == 12
    labelled = [row for row in train if row["text"] in given]
    assert {row["text"] for row in labelled} | {row["text"] for row in valid} == given.keys()
    assert sum(given[row["text"]] != row["label"] for row in labelled) > 0.8 * len(labelled)
    assert [row["text"] for row in train if row["text"] not in given] == ["a great film", "a dull film"]
    assert [list(row.values()) for row in rows(folder / "test.jsonl")] == [
        line.split("\t") for line in test.read_text().splitlines()[1:]
    ]
    report = json.loads((tmp_path / "out" / "student.json").read_text())
    assert report["about"] == "20 test examples"
    assert report["scores"]["accuracy"]["teacher"] < 0.5
    kept = json.loads((folder / "answers.json").read_text())["answers"]
    assert (kept["kept"], kept["valid"], kept["test"], kept["agreement"]) == (0, 12, 20, False)


def test_texts_beside_labelled_examples(teachers: Callable[[str], Path], tmp_path: Path, lines: Path) -> None:
    data = tmp_path / "mine.csv"
    rows_ = [line.split("\t") for line in write(tmp_path / "t.tsv").read_text().splitlines()[1:]]
    data.write_text("body,verdict\n" + "".join(f"{text},{label}\n" for text, label in rows_))
    columns = {"data.text": "body", "data.label": "verdict"}
    student(teachers("classify"), tmp_path / "out", [str(lines)], data=str(data), **columns)
    found = rows(tmp_path / "out" / "teacher" / "train.jsonl")
    given = dict(rows_)
    assert [row["verdict"] for row in found[:-40]] == [given[row["body"]] for row in found[:-40]]
    assert [row["body"] for row in found[-40:]] == lines.read_text().splitlines()
    model = CliRunner().invoke(app, ["evaluate", str(tmp_path / "out"), str(data), "--device", "cpu"])
    assert model.exit_code == 0, model.output


def test_texts_alone_are_validated_by_agreement(teachers: Callable[[str], Path], tmp_path: Path, lines: Path) -> None:
    student(teachers("classify"), tmp_path / "out", [str(lines)])
    told = json.loads((tmp_path / "out" / "student.json").read_text())
    assert "the student's scores are its agreement with the teacher" in told["about"]
    assert told["scores"]["accuracy"]["teacher"] == 1
    again = qkv.distill(teachers("classify"), texts=[lines], out=tmp_path / "more", debug=True, **QUIET)
    assert again.evaluate([("a great film", "pos"), ("a dull film", "neg")])[0].name == "accuracy"
    assert "agreement with the teacher" in (tmp_path / "out" / "report.html").read_text()


def test_a_student_with_another_vocabulary_learns_the_answers(teachers: Callable[[str], Path], tmp_path: Path) -> None:
    sizes = dict(one.split("=") for one in model_set(dim=16, num_layers=1))
    changes = {key: int(value) for key, value in sizes.items()} | {"distill.answers": True, "distill.weight": 0}
    changes |= {"model.preset": "transformer-tiny", "tokenizer.vocab_size": 90}
    student(teachers("translate"), tmp_path / "out", **changes)
    made = qkv.load(tmp_path / "out", device="cpu")
    assert made.tokenizer is not None
    assert made.tokenizer.vocab_size == 90
    assert "soft" not in (tmp_path / "out" / "metrics.jsonl").read_text()


def test_a_search_asks_once(teachers: Callable[[str], Path], tmp_path: Path, lines: Path, counted: list[int]) -> None:
    asked = [
        f"distill.texts=[{lines}]",
        f"distill.teacher={teachers('classify')}",
        f"model.init={teachers('classify')}",
    ]
    asked += ["train.steps=2", "train.workers=0", "log.track=none", f"out={tmp_path / 'out'}", "data.held_out=0.1"]
    assert search(read_recipe("classify", asked, debug=True), **QUIET).finished
    assert sum(counted) == 40
    assert search(read_recipe("classify", asked, debug=True), resume=True, **QUIET).finished
    assert sum(counted) == 40


def test_bad_input_is_one_sentence_and_leaves_nothing(
    teachers: Callable[[str], Path], tmp_path: Path, place: Path
) -> None:
    out = tmp_path / "out"
    for name, content in {"empty": "", "tabs": "a\tb\nc\n", "fine": "a\nb\n"}.items():
        (tmp_path / f"{name}.txt").write_text(content)
    (tmp_path / "cells.csv").write_text("n,premise\n1,a\n")
    (tmp_path / "gap.csv").write_text("text,n\na,1\n,2\n")

    def asked(kind: str, *more: str) -> Any:
        command = ["distill", str(teachers(kind)), "--out", str(out), "--device", "cpu", "--debug", *more]
        return CliRunner().invoke(app, command)

    texts = {
        ("classify", "none.txt"): (2, "there is no file"),
        ("classify", "empty.txt"): (2, "empty.txt has no text"),
        ("classify", "gap.csv"): (1, "gap.csv:3: the text is empty"),
        ("pairs", "tabs.txt"): (1, "tabs.txt:2: a pair is two texts with one tab between, got 0 tabs"),
    }
    for (kind, name), (code, message) in texts.items():
        found = asked(kind, "--texts", str(tmp_path / name))
        assert (found.exit_code, type(found.exception)) in ((code, SystemExit), (1, UsageError), (1, QkvError)), name
        assert message in f"{found.exception} {found.output}", name
        assert not out.exists(), name
    (tmp_path / "two.txt").write_text("a\tb\nc\td\n")
    labelled, pairs = str(place / "train.tsv"), str(place / "pairs.tsv")
    with pytest.raises(QkvError, match="single texts cannot be mixed with pairs"):
        student(teachers("classify"), out, [str(tmp_path / "two.txt")], data=labelled)
    with pytest.raises(UsageError, match=r"learns from distill\.texts alone"):
        student(teachers("embeddings"), out, [str(tmp_path / "fine.txt")], data=pairs)
    image = ["data.train=x", "model.preset=vit-mini", f"distill.teacher={teachers('classify')}", f"out={out}"]
    with pytest.raises(UsageError, match=r"distill\.answers: a teacher can write answers for .*, not for image"):
        run_recipe(read_recipe("image", [*image, "distill.answers=true"]), **QUIET)
    change = [f"distill.texts=[{tmp_path / 'fine.txt'}]", f"model.init={teachers('classify')}"]
    with pytest.raises(UsageError, match=r"cannot answer texts for the task tag"):
        run_recipe(read_recipe("tag", [*change, *image[2:]]), **QUIET)
    for own in (Own(task=read_task("classify", {}, DataConfig())), Own(batches=lambda _: iter(()))):
        asked_ = [*change, "train.steps=1", image[2], f"out={out}"]
        with pytest.raises(UsageError, match="are for files that qkv reads"):
            run_recipe(read_recipe("classify", asked_), own=own, **QUIET)
    with pytest.raises(UsageError, match=r"distill\.answers is for training files"):
        student(teachers("classify"), out, [str(tmp_path / "fine.txt")], **{"distill.answers": True})
    assert not out.exists()
