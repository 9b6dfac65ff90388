"""A run's folder: who may train in it, and what must not have changed when a run is resumed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qkv.checkpoints.update import DIGESTS
from qkv.common import disk
from qkv.common.config import to_toml
from qkv.common.errors import QkvError, UsageError
from qkv.recipes.schema import Recipe, read_recipe
from qkv.runs.inputs import check_inputs
from qkv.runs.layout import LOCK
from qkv.runs.run import run_recipe
from qkv.runs.run_folder import held
from tests.runs.killing import CHANGES, cut_off, left, write_data

SLOWER = ["optim.lr=0.001"]  # every validation is the best


def recipe_of(root: Path, *changes: str, out: str = "run") -> Recipe:
    files = [f"data.{part}=[{root}/{part}.en,{root}/{part}.fr]" for part in ("train", "valid")]
    kept = ["train.steps=4", "train.keep_checkpoints=true", f"out={root}/{out}"]
    return read_recipe("phrasebook", [*CHANGES, *kept, *files, *changes], debug=True)


def train(recipe: Recipe, *, resume: bool = False) -> list[str]:
    said: list[str] = []
    run_recipe(recipe, resume=resume, device="cpu", say=said.append)
    return said


@pytest.fixture
def root(tmp_path: Path, ended: Path) -> Path:
    """A run of four steps that was cut off after the second."""
    shutil.copytree(ended, tmp_path, dirs_exist_ok=True)
    cut_off(tmp_path / "run", 4)
    for name in ("recipe.toml", "inputs.json"):
        (tmp_path / "run" / name).unlink()
    recipe = recipe_of(tmp_path)  # names the copied data
    (tmp_path / "run" / "recipe.toml").write_text(to_toml(recipe))
    check_inputs(tmp_path / "run", recipe)
    return tmp_path


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ended")
    write_data(root)
    train(recipe_of(root, "train.save_every=2"))
    return root


def test_a_finished_run_resumes_to_the_same_files(root: Path, ended: Path) -> None:
    train(recipe_of(root), resume=True)
    again, whole = left(root / "run"), left(ended / "run")
    assert again.keys() == whole.keys()
    assert again["model.safetensors"] == whole["model.safetensors"]
    assert LOCK not in again


def test_a_second_run_is_refused_with_the_process_of_the_first(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from qkv.runs.run_folder import held\n"
        "with held(Path(sys.argv[1])):\n    print(1, flush=True); time.sleep(60)"
    )
    first = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "run")], stdout=subprocess.PIPE)
    assert first.stdout is not None
    first.stdout.readline()
    try:
        said = rf"run is in use by another run \(process {first.pid}\)"
        with pytest.raises(UsageError, match=said), held(tmp_path / "run"):
            pass
    finally:
        first.kill()
        first.wait()
    with held(tmp_path / "run"):  # the system let go of it
        assert (tmp_path / "run" / LOCK).read_text() == f"{os.getpid()}\n"
    assert os.listdir(tmp_path / "run") == []


def test_of_many_that_start_at_once_one_trains(tmp_path: Path) -> None:
    write_data(tmp_path)
    inside, refused = list[int](), list[str]()
    gate, done = threading.Barrier(8), threading.Event()

    def start() -> None:
        gate.wait()
        try:
            with held(tmp_path / "run"):
                inside.append(1)
                done.wait(5)
        except UsageError as error:
            refused.append(str(error))
            if len(refused) == 7:
                done.set()

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(inside), len(refused)) == (1, 7)


def test_a_foreign_folder_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    write_data(tmp_path)
    names = ["notes.txt", ".x.json.new", ".best.old/file", ".x.1-1.new"]
    for name in names:
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text(name)
    before = left(tmp_path / "run")
    with pytest.raises(UsageError, match="is not empty and holds no run"):
        train(recipe_of(tmp_path), resume=True)
    assert left(tmp_path / "run") == before


@pytest.mark.parametrize("name", ["train.en", "valid.fr"])
def test_changed_data_is_refused_by_name(root: Path, name: str) -> None:
    data = (root / name).read_bytes()
    (root / name).write_bytes(data.replace(b"a", b"b", 1))
    with pytest.raises(UsageError, match=rf"{name} has changed since the run started"):
        train(recipe_of(root), resume=True)
    (root / name).write_bytes(data)  # another time of change, the same bytes
    train(recipe_of(root), resume=True)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", disk.MANIFEST])
@pytest.mark.parametrize("how", ["edited", "deleted"])
def test_a_tokenizer_that_was_changed_is_refused_by_name(root: Path, name: str, how: str) -> None:
    file = root / "run" / "tokenizer" / name
    if how == "edited":
        file.write_bytes(file.read_bytes().replace(b"a", b"b", 1))
    else:
        file.unlink()
    with pytest.raises(QkvError, match=rf"tokenizer/{name} is .*(damaged|missing).*another tokenizer"):
        train(recipe_of(root), resume=True)


def test_a_tokenizer_that_is_gone_is_not_trained_again(root: Path) -> None:
    shutil.rmtree(root / "run" / "tokenizer")
    with pytest.raises(QkvError, match="another tokenizer"):
        train(recipe_of(root), resume=True)


@pytest.mark.parametrize("how", ["edited", "deleted", "all deleted"])
def test_with_patience_the_best_weights_must_be_whole(root: Path, how: str) -> None:
    best = root / "run" / "best"
    if how == "edited":
        (best / "config.json").write_bytes((best / "config.json").read_bytes().replace(b"1", b"2", 1))
    elif how == "deleted":
        (best / "tokenizer_config.json").unlink()
    else:
        shutil.rmtree(best)
    with pytest.raises(QkvError, match=r"run/best/.* is .*(damaged|missing).*the run ends with the weights in"):
        train(recipe_of(root), resume=True)


def test_without_patience_the_best_weights_are_written_again(tmp_path: Path) -> None:
    write_data(tmp_path)
    changes = ["train.patience=0", *SLOWER]
    train(recipe_of(tmp_path, *changes))
    whole = left(tmp_path / "run")
    cut_off(tmp_path / "run", 4)
    (tmp_path / "run" / "best" / "model.safetensors").unlink()
    said = train(recipe_of(tmp_path, *changes), resume=True)
    assert any("best/model.safetensors is missing; the next validation writes" in line for line in said)
    assert left(tmp_path / "run")["best/model.safetensors"] == whole["best/model.safetensors"]


def test_a_run_of_an_earlier_version_resumes(root: Path) -> None:
    """It has no inputs, no manifests and no step of its best weights."""
    run = root / "run"
    for file in (run / "inputs.json", run / "tokenizer" / disk.MANIFEST, run / "best" / DIGESTS):
        file.unlink()
    facts = run / "checkpoints" / "step-2" / "facts.json"
    facts.write_text(json.dumps({k: v for k, v in json.loads(facts.read_text()).items() if k != "best_step"}))
    disk.seal(facts.parent)
    train(recipe_of(root), resume=True)
    assert (run / "inputs.json").is_file()
    assert disk.damage(run / "tokenizer") is None


def test_a_changed_start_is_refused_by_name(tmp_path: Path) -> None:
    write_data(tmp_path)
    start = tmp_path / "start"
    for name in ("config.json", "model.safetensors", "1_Pooling/config.json", "checkpoints/step-2/big"):
        (start / name).parent.mkdir(parents=True, exist_ok=True)
        (start / name).write_text(name)
    recipe = recipe_of(tmp_path, "model.preset=", f"model.init={start}")
    check_inputs(tmp_path, recipe)
    (start / "checkpoints" / "step-2" / "big").write_text("other")
    check_inputs(tmp_path, recipe)
    (start / "1_Pooling" / "config.json").write_text("other")
    with pytest.raises(UsageError, match=r"start/1_Pooling/config\.json has changed"):
        check_inputs(tmp_path, recipe)


def inputs(tmp_path: Path, *paths: str) -> Callable[[], None]:
    recipe = read_recipe("image", [f"data.train={json.dumps(paths)}", f"out={tmp_path}"])
    return lambda: check_inputs(tmp_path, recipe)


def test_every_kind_of_input_is_known_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "images" / "cat").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "images/cat/1.png"):
        (data / name).write_text(name)
    with gzip.open(data / "c.gz", "wt") as out:
        out.write("text")
    np.savez(data / "d.npz", images=np.zeros(3))
    names = ["*.txt", "c.gz", "d.npz", "images", "a.txt#train"]
    check = inputs(tmp_path, *(str(data / name) for name in names), "phrasebook:train:20", "hf:some/set")
    check()
    check()
    for name in ("images/cat/1.png", "c.gz", "b.txt"):
        before = (data / name).read_bytes()
        (data / name).write_bytes(before + b"x")
        with pytest.raises(UsageError, match="has changed since the run started"):
            check()
        (data / name).write_bytes(before)
        check()
    (data / "new.txt").write_text("x")
    with pytest.raises(UsageError, match=r"new\.txt did not exist when the run started"):
        check()
    (data / "new.txt").unlink()
    (data / "b.txt").unlink()
    with pytest.raises(UsageError, match=r"b\.txt is missing"):
        check()


def test_a_file_of_the_same_size_and_time_is_still_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    os.utime(file, (1e9, 1e9))
    check = inputs(tmp_path, str(file))
    check()
    file.write_text("two")
    os.utime(file, (1e9, 1e9))
    with pytest.raises(UsageError, match=r"a\.txt has changed"):
        check()


def test_a_file_that_rests_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one")
    check = inputs(tmp_path, str(tmp_path / "a.txt"))
    monkeypatch.setattr("qkv.runs.inputs.YOUNG", -(10**12))
    check()
    monkeypatch.setattr(disk, "digest_of", lambda _: pytest.fail("it was read"))
    check()


def test_damaged_inputs_are_said(root: Path) -> None:
    file = root / "run" / "inputs.json"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(QkvError, match=r"inputs\.json is damaged.*remove it to resume"):
        train(recipe_of(root), resume=True)


@pytest.mark.parametrize("data", [b"\xff\xfe\n", b"5\n", b"[" * 100_000 + b"\n", b'{"step": "x"}\n'])
def test_damage_in_the_metrics_does_not_stop_a_run(root: Path, data: bytes) -> None:
    file = root / "run" / "metrics.jsonl"
    first, *rest = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + data + b"".join(rest))
    with pytest.warns(UserWarning, match=r"metrics\.jsonl is damaged: 1 lines"):
        train(recipe_of(root), resume=True)
    lines: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["step"] for line in lines if "valid_loss" in line] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "change",
    [
        "optim.lr=nan", "optim.lr=inf", "optim.beta2=1", "optim.eps=-1", "optim.weight_decay=-0.1", "optim.warmup=nan",
        "objective.smoothing=5", "objective.smoothing=nan", "objective.r_drop=-1", "objective.r_drop=inf",
        "train.workers=1000000", "train.seed=-1", "train.ema=1.5", "train.steps=10000000000000000000",
        "data.held_out=nan",
    ],
)  # fmt: skip
def test_a_wrong_number_is_found_before_the_folder_is_made(tmp_path: Path, change: str) -> None:
    write_data(tmp_path)
    with pytest.raises(UsageError, match=change.partition("=")[0].split(".")[-1]):
        train(recipe_of(tmp_path, change))
    assert not (tmp_path / "run").exists()
