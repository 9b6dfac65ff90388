"""`qkv shrink`: its candidates, what they are scored on, what is written, and how it goes on after a stop."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import qkv
from qkv.checkpoints.folder import read_folder
from qkv.common.errors import QkvError, UsageError
from qkv.evaluation.score import Score
from qkv.predict import Model
from qkv.recipes.schema import read_recipe
from qkv.runs import candidates as making
from qkv.runs.gauge import Figures, Gauge, Speed, parameters
from qkv.runs.prepare import reading
from qkv.runs.shrink import Shrunk, _row
from qkv.tasks.split import training_examples
from qkv.tasks.table import read_task
from tests.runs.killing import cut_off
from tests.runs.test_distil import model_set, run, sentence, write
from tests.runs.test_prune import stored_dtypes

QUIET: dict[str, Any] = {"device": "cpu", "say": lambda _: None}
FEW: dict[str, Any] = {"train.steps": 4, "train.tokens": 400, "train.workers": 0, "log.track": "none"}
ALL = ["as it is", "int8", "fewer heads", "fewer heads, int8", "fewer layers", "fewer layers, int8", "student"]
ALL += ["student, int8"]


def shrink_model(model: Any, data: Any = None, *, targets: list[str], **given: Any) -> Shrunk:
    """Return what is measured, also if no candidate meets the targets."""
    found: list[Shrunk] = []
    try:
        qkv.shrink(model, data, target=targets, on_result=found.append, **given)
    except QkvError:
        if not found:
            raise
    return found[0]


def speeds(self: Gauge, models: Mapping[str, Model]) -> dict[str, Speed]:
    """A speed that does not depend on what else the machine does: a millisecond for each 10,000 weights."""
    assert self._few  # examples to time
    return {name: Speed(parameters(model) / 1e4, 100.0, 0.1, "none") for name, model in models.items()}


@pytest.fixture(autouse=True)
def _speeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gauge, "speeds", speeds)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shrink")
    write(folder / "train.tsv")
    return folder


@pytest.fixture(scope="module")
def teacher(place: Path) -> Path:
    """A classifier with its run, trained on train.tsv; it knows the words that decide."""
    data = place / "train.tsv"
    changes = ["model.preset=bert-tiny", *model_set(), "train.steps=80", "train.tokens=400", "optim.lr=4e-3"]
    return run("classify", place / "teacher", f"data.train={data}", *changes, "tokenizer.vocab_size=80")


@pytest.fixture(scope="module")
def shrunk(place: Path, teacher: Path) -> Shrunk:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gauge, "speeds", speeds)
        return shrink_model(teacher, targets=["-5 points"], out=place / "shrunk", **QUIET, **FEW)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_folder(folder).model.state_dict()


def same(a: Path, b: Path) -> bool:
    mine, theirs = weights(a), weights(b)
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def held_out(folder: Path) -> tuple[set[str], set[str]]:
    """Return the keys of the examples that a run trained on, and of those in the files that it did not."""
    recipe = read_recipe(str(folder / "recipe.toml"))
    task = read_task(recipe.task, recipe.objective, recipe.data).resolved(lambda _: None)
    trained = {task.key(example) for example in training_examples(task)}
    return trained, {task.key(example) for example in task.examples(recipe.data.train)} - trained


def test_every_candidate_is_there_and_the_chosen_one_is_the_model(shrunk: Shrunk, place: Path, teacher: Path) -> None:
    assert [row.name for row in shrunk.rows] == ALL
    assert not shrunk.impossible
    assert shrunk.met
    made = place / "shrunk" / "candidates"
    depths = {name: read_folder(made / name).config.num_layers for name in ("fewer-heads", "fewer-layers", "student")}
    assert depths == {"fewer-heads": 3, "fewer-layers": 2, "student": 1}
    assert read_folder(made / "fewer-heads").config.num_heads == 3
    places = [teacher, *(made / row.name.replace(", ", "-").replace(" ", "-") for row in shrunk.rows[1:])]
    sizes = [sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e6 for folder in places]
    assert [row.megabytes for row in shrunk.rows] == sizes
    assert [read_folder(folder).int8 for folder in places] == 4 * [False, True]
    chosen = shrunk.choice.row.name
    assert chosen.startswith("student")  # the fastest
    assert same(place / "shrunk", made / chosen.replace(", ", "-"))
    assert read_folder(place / "shrunk").int8 == chosen.endswith("int8")
    assert {row.lost for row in shrunk.rows if row.name == "as it is"} == {0.0}


def test_scores_are_those_of_evaluate_on_a_test_file(place: Path, teacher: Path) -> None:
    test = write(place / "test.tsv", 60, seed=5)
    lines = test.read_text().splitlines()
    test.write_text("\n".join([*lines[:50], *(line.rpartition("\t")[0] + "\tpos" for line in lines[50:])]) + "\n")
    found = shrink_model(teacher, targets=["1 MB"], out=place / "tested", test=test, quick=True, **QUIET)
    assert [row.name for row in found.rows] == ALL[:4]
    assert found.about == "60 test examples"
    before = qkv.load(teacher, device="cpu").evaluate(test)[0].value
    assert found.figures["as it is"].scores["accuracy"] == before < 1
    heads = qkv.load(place / "tested" / "candidates" / "fewer-heads", device="cpu").evaluate(test)[0].value
    assert found.rows[2].lost == pytest.approx(100 * (before - heads), abs=1e-6)


def test_no_candidate_is_scored_on_what_it_was_trained_on(
    place: Path, teacher: Path, shrunk: Shrunk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    scores = Gauge.scores
    monkeypatch.setattr(
        Gauge, "scores", lambda self, model: (seen.extend(e.text for e in self._exam.given), scores(self, model))[1]
    )
    chosen_on: list[str] = []
    measure = making.head_importance
    monkeypatch.setattr(
        making,
        "head_importance",
        lambda *a, given, **k: (chosen_on.extend(e.text for e in given), measure(*a, given=given, **k))[1],
    )
    found = shrink_model(teacher, targets=["1 MB"], out=place / "seen", quick=True, **QUIET)
    assert found.about == shrunk.about == f"{len(set(seen))} held-out examples"
    for folder in (teacher, *(place / "shrunk" / "candidates" / name for name in ("fewer-layers", "student"))):
        trained, left = held_out(folder)
        assert set(seen) == left
        assert not set(seen) & trained
    assert chosen_on
    assert not set(chosen_on) & set(seen)


def test_of_other_files_what_the_model_was_trained_on_is_left_out(place: Path, teacher: Path, tmp_path: Path) -> None:
    old, new = (place / "train.tsv").read_text(), write(tmp_path / "new.tsv", 100, seed=9).read_text()
    both = tmp_path / "both.tsv"
    both.write_text(old + new.partition("\n")[2])
    trained, _ = held_out(teacher)
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        scores = Gauge.scores
        patch.setattr(
            Gauge, "scores", lambda self, model: (seen.extend(e.text for e in self._exam.given), scores(self, model))[1]
        )
        shrink_model(teacher, both, targets=["1 MB"], out=tmp_path / "out", quick=True, **QUIET)
    assert seen
    assert not trained & set(seen)
    copied = tmp_path / "copy.tsv"  # other files by name, the same examples
    copied.write_text("\n".join([old.splitlines()[0], *(f"{text}\t{'pos'}" for text in sorted(trained))]) + "\n")
    copied.write_text(copied.read_text().replace("\tpos", "\tneg", 30))
    with pytest.raises(
        UsageError, match="the held-out share has no example that the model was not trained on: give others with --test"
    ):
        shrink_model(teacher, copied, targets=["1 MB"], out=tmp_path / "none", quick=True, **QUIET)
    with pytest.raises(UsageError, match=r"copy\.tsv has no example that the model was not trained on"):
        shrink_model(teacher, targets=["1 MB"], out=tmp_path / "none", test=copied, quick=True, **QUIET)
    assert not (tmp_path / "none").exists()


def test_the_report_and_the_picture(shrunk: Shrunk, place: Path) -> None:
    kept = json.loads((place / "shrunk" / "shrink.json").read_text())
    assert kept == json.loads(json.dumps(shrunk.to_dict()))
    assert [one["name"] for one in kept["candidates"]] == ALL
    assert kept["met"] is True
    assert kept["chosen"] == shrunk.choice.row.name
    drawn = (place / "shrunk" / "frontier.svg").read_text()
    ElementTree.fromstring(drawn)
    assert all(f">{name}<" in drawn for name in (*ALL, "frontier"))


def test_nothing_is_trained_again_for_another_target(
    shrunk: Shrunk, place: Path, teacher: Path, tmp_path: Path
) -> None:
    del shrunk
    again = tmp_path / "again"
    shutil.copytree(place / "shrunk", again)
    model = (again / "model.safetensors").read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qkv.runs.run.train", None)  # the loop
        found = shrink_model(teacher, targets=["0.001 MB"], out=again, resume=True, **QUIET, **FEW)
        assert not found.met
        assert re.fullmatch(
            r"no candidate meets 0\.001 MB: student, int8 comes nearest \(0\.\d+ MB too large\), so no model is "
            "written",
            found.told(),
        )
        assert (again / "model.safetensors").read_bytes() == model
        with pytest.raises(QkvError, match="no candidate meets"):
            qkv.shrink(teacher, target="0.001 MB", out=again, resume=True, **QUIET, **FEW)
        best = qkv.shrink(teacher, target=["100 MB", "-0 points"], out=again, resume=True, **QUIET, **FEW)
    assert best.labels == ("neg", "pos")
    assert best.evaluate(place / "train.tsv")[0].value > 0.9
    chosen = json.loads((again / "shrink.json").read_text())["chosen"]
    assert same(again, again / "candidates" / chosen.replace(", ", "-"))


def test_a_stopped_student_goes_on_with_the_same_weights(teacher: Path, tmp_path: Path) -> None:
    """As after a kill in the student's training: the student has a checkpoint, and what comes later is not there."""
    how = QUIET | FEW | {"train.save_every": 1, "train.keep_checkpoints": True, "train.keep": 9}
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    first = shrink_model(teacher, targets=["1 MB"], out=whole, **how)
    shutil.copytree(whole, cut)
    for name in ("model.safetensors", "config.json", "shrink.json", "qkv_digests.json", "frontier.svg"):
        (cut / name).unlink()
    shutil.rmtree(cut / "candidates" / "student-int8")
    (cut / "candidates" / "student" / "model.safetensors").unlink()
    cut_off(cut / "candidates" / "student", 3, 4)
    began = (cut / "candidates" / "fewer-layers" / "metrics.jsonl").read_bytes()
    with pytest.raises(UsageError, match=r"already holds a run: use --resume, or choose another folder"):
        shrink_model(teacher, targets=["1 MB"], out=cut, **how)
    second = shrink_model(teacher, targets=["1 MB"], out=cut, resume=True, **how)
    assert (cut / "candidates" / "fewer-layers" / "metrics.jsonl").read_bytes() == began
    assert same(whole / "candidates" / "student", cut / "candidates" / "student")
    assert same(whole, cut)
    assert first.choice == second.choice
    assert [row.lost for row in first.rows] == [row.lost for row in second.rows]
    with pytest.raises(UsageError, match=r"differs from this recipe .*steps = 4.*steps = 5"):
        shrink_model(teacher, targets=["1 MB"], out=cut, resume=True, **how | {"train.steps": 5})


@pytest.mark.slow
@pytest.mark.parametrize("when", ["fewer-heads/config.json", "fewer-layers/checkpoints", "student/checkpoints"])
def test_a_killed_command_goes_on(when: str, teacher: Path, tmp_path: Path) -> None:
    """A real kill -9, wherever it hits."""
    changes = {**FEW, "train.steps": 60, "train.save_every": 5}
    said = [f"{key}={value}" for key, value in changes.items()]
    command = [sys.executable, "-m", "qkv", "shrink", str(teacher), "--target", "1 MB", "--device", "cpu"]
    command += ["--out", str(tmp_path / "cut"), "--set", *said]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "cut" / "candidates" / when).exists() and time.monotonic() < end:
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert not (tmp_path / "cut" / "model.safetensors").exists()
    whole = shrink_model(teacher, targets=["1 MB"], out=tmp_path / "whole", **QUIET, **changes)
    found = shrink_model(teacher, targets=["1 MB"], out=tmp_path / "cut", resume=True, **QUIET, **changes)
    assert found.choice == whole.choice
    for name in ("fewer-heads", "fewer-layers", "student", "student-int8"):
        assert same(*(tmp_path / one / "candidates" / name for one in ("whole", "cut")))
    assert same(tmp_path / "whole", tmp_path / "cut")


def test_a_folder_that_is_no_run_with_rows_and_a_student_of_another_kind(teacher: Path, tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = [(sentence(draw, ["great", "fine"] if n % 2 else ["awful", "dull"]), "pos" if n % 2 else "neg") for n in
            range(80)]  # fmt: skip
    how = QUIET | FEW | {"model.preset": "bert-tiny", "model.set.num_layers": 1, "model.set.dim": 16}
    how |= {"model.set.num_heads": 2, "model.set.ff_dim": 16, "distill.temperature": 4.0}
    qkv.load(teacher, device="cpu").save(tmp_path / "plain")
    made = qkv.shrink(tmp_path / "plain", rows, target="1 MB", out=tmp_path / "out", **how)
    assert made.labels == ("neg", "pos")
    assert read_folder(tmp_path / "out" / "candidates" / "student").config.dim == 16
    assert (tmp_path / "out" / "rows" / "train.jsonl").is_file()
    assert made.evaluate(rows)[0].count == 80


def test_weights_are_stored_as_in_the_source(teacher: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    shutil.copytree(teacher, half)
    qkv.load(half, device="cpu").save(half, dtype="float16")
    out = tmp_path / "out"
    shrink_model(half, targets=["1 MB"], out=out, **QUIET, **FEW)
    for name in ("fewer-heads", "fewer-layers", "student"):
        assert stored_dtypes(out / "candidates" / name) == {"float16"}
    making.Candidate("as it is", "", half, half).write(tmp_path / "chosen")
    assert stored_dtypes(tmp_path / "chosen") == {"float16"}


def test_what_a_model_cannot_have_is_named_with_the_reason(place: Path, tmp_path: Path) -> None:
    sizes = ["model.preset=bert-tiny", *model_set(num_layers=1, num_heads=2), "tokenizer.vocab_size=80"]
    small = run("classify", tmp_path / "small", f"data.train={place / 'train.tsv'}", *sizes)
    said: list[str] = []
    found = shrink_model(
        small, targets=["1 MB"], out=tmp_path / "out", device="cpu", say=said.append, **FEW
    )  # fmt: skip
    assert [row.name for row in found.rows] == ["as it is", "int8"]
    assert found.impossible == {
        "fewer heads": "0.25 of the 2 heads of a layer is none of them: choose another share",
        "fewer layers": "the stack has a single layer",
        "student": "the model has a single layer",
    }
    assert "student: not possible: the model has a single layer" in said


def test_bad_input_is_refused_before_anything_is_written(teacher: Path, place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    data = place / "train.tsv"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    qkv.load(teacher, device="cpu").save(tmp_path / "plain")
    qkv.load(teacher, device="cpu").save(tmp_path / "int8", dtype="int8")
    (tmp_path / "empty.tsv").write_text("text\tlabel\n")
    rows = data.read_text().splitlines()
    (tmp_path / "three.tsv").write_text("\n".join([*rows, "so so\tmixed", "not bad\tmixed"]) + "\n")
    (tmp_path / "one.tsv").write_text("text\tlabel\na film\tpos\n")
    cases: list[tuple[str, dict[str, Any]]] = [
        ("a target is such as", {"targets": ["fast"]}),
        ("name a target", {"targets": []}),
        ("there is no file|does not exist|No such file", {"data": tmp_path / "missing.tsv"}),
        ("there is no file|does not exist|No such file", {"test": tmp_path / "missing.tsv"}),
        ("is not a folder", {"model": tmp_path / "missing"}),
        ("is in int8 already: shrink the folder that it was made from", {"model": tmp_path / "int8"}),
        ("does not say which files it learned from", {"model": tmp_path / "plain"}),
        ("does not know the label 'mixed'", {"data": tmp_path / "three.tsv"}),
        ("at least two classes are needed", {"data": tmp_path / "one.tsv"}),
        (r"empty\.tsv has no example", {"test": tmp_path / "empty.tsv"}),
        ("is the model itself: choose another folder", {"out": teacher}),
        ("is not empty and holds no run: choose another folder", {"out": tmp_path / "mine"}),
        (r"unknown key .*'train\.stepz'", {"train.stepz": 3}),
        (r"distill\.temperature must be at least", {"distill.temperature": 0.0}),
    ]
    for message, given in cases:
        asked: dict[str, Any] = {"model": teacher, "targets": ["1 MB"], "out": out} | QUIET | FEW | given
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(QkvError, match=message) as caught:
            shrink_model(asked.pop("model"), asked.pop("data", None), **asked)
        assert "\n" not in str(caught.value)
        assert sorted(tmp_path.rglob("*")) == before, message


@pytest.mark.parametrize(
    ("metric", "before", "after", "lost"),
    [
        ("accuracy", 0.92, 0.91, 1.0),
        ("accuracy", 0.91, 0.92, -1.0),
        ("pearson", -0.2, -0.3, 10.0),
        ("BLEU", 30.0, 28.5, 1.5),
        ("perplexity", 20.0, 22.5, 2.5),
        ("mse", 0.5, 0.75, 0.25),
        ("accuracy", 0.5, 0.5, 0.0),
    ],
)
def test_points(metric: str, before: float, after: float, lost: float) -> None:
    score = Score(name=metric, value=before, low=before, high=before, count=9, signature="")
    figures = Figures({metric: after, "MSE": after}, 1, 1.0, Speed(1.0, 1.0, 1.0, ""))
    found = _row("one", score, figures).lost
    assert (found, math.copysign(1, found)) == (lost, math.copysign(1, lost))


@pytest.mark.slow
def test_a_recurrent_network_can_only_be_quantised(tmp_path: Path) -> None:
    files = pairs(tmp_path, 60)
    sizes = ["model.set.dim=16", "tokenizer.vocab_size=120", "train.steps=2"]
    folder = run("rnn-translate", tmp_path / "whole", f"data.train=[{','.join(files)}]", *sizes)
    found = shrink_model(folder, targets=["1 MB"], out=tmp_path / "out", **QUIET, **FEW)
    assert [row.name for row in found.rows] == ["as it is", "int8"]
    assert found.impossible == {
        "fewer heads": "seq2seq_rnn has no attention heads to remove",
        "fewer layers": "seq2seq_rnn has no stack of layers to drop some of",
        "student": "seq2seq_rnn has no stack of layers to drop some of",
    }


def tagged(file: Path, count: int, seed: int) -> Path:
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        words = [draw.choice(["Anna", "Berlin", "runs", "to", "the", "house"]) for _ in range(5)]
        tags = {"Anna": "B-PER", "Berlin": "B-LOC"}
        lines += [*(f"{word} {tags.get(word, 'O')}" for word in words), ""]
    file.write_text("\n".join(lines) + "\n")
    return file


def pairs(folder: Path, count: int) -> list[str]:
    from qkv.data.phrasebook.named import named_pairs

    found = list(named_pairs(f"phrasebook:train:{count}"))
    for side in ("source", "target"):
        (folder / f"train.{side[0]}").write_text("".join(f"{getattr(pair, side)}\n" for pair in found))
    return [str(folder / "train.s"), str(folder / "train.t")]


def rated(file: Path, count: int) -> Path:
    draw = random.Random(1)
    rows = [[draw.choice(["good", "bad", "so"]) for _ in range(4)] for _ in range(count)]
    lines = [f"{' '.join(words)} {number}\t{words.count('good') + 0.5}" for number, words in enumerate(rows)]
    file.write_text("\n".join(["text\tscore", *lines]) + "\n")
    return file


@pytest.mark.parametrize("task", ["tag", "regress", "translate"])
def test_other_tasks(task: str, tmp_path: Path) -> None:
    if task == "translate":
        files, sizes = pairs(tmp_path, 80), ["model.preset=transformer-tiny", *model_set(num_decoder_layers=2)]
    else:
        files = [str(tagged(tmp_path / "a.conll", 60, 1) if task == "tag" else rated(tmp_path / "a.tsv", 60))]
        sizes = ["model.preset=bert-tiny", *model_set()]
    named = f"data.train=[{','.join(files)}]"
    folder = run(task, tmp_path / "whole", named, *sizes, "tokenizer.vocab_size=120", "train.steps=3")
    changes = FEW | {"train.steps": 2}
    found = shrink_model(folder, targets=["1 MB"], out=tmp_path / "out", **QUIET, **changes)
    assert [row.name for row in found.rows] == ALL
    assert found.metric == {"tag": "entity F1 (micro)", "regress": "pearson", "translate": "BLEU"}[task]
    assert found.met
    assert qkv.load(tmp_path / "out", device="cpu").config.num_layers in (1, 2, 3)
    recipe = read_recipe(str(tmp_path / "out" / "shrink.toml"))
    assert recipe.task == task
    assert reading(recipe)
    if task == "translate":
        student = read_folder(tmp_path / "out" / "candidates" / "student").config
        shorter = read_folder(tmp_path / "out" / "candidates" / "fewer-layers").config
        assert (student.num_layers, student.num_decoder_layers) == (3, 1)  # the whole encoder
        assert (shorter.num_layers, shorter.num_decoder_layers) == (3, 1)
