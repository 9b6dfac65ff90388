"""Every shipped recipe on a GPU, in every mode of train.compile, against the eager run on the CPU in fp32.

The runs are made by a few processes at a time (`recipe_runs.py`), since compiling takes one core for long; each test
waits for the one it is about.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from qkv.recipes.schema import shipped
from tests.gpu.device import ON_CUDA
from tests.runs.test_runs import EXTRA, NEEDS_INIT, train, write

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]
PLAIN = ["cpu", "no", "record", "dropout"]
COMPILED = ["yes"] if ON_CUDA else []
RESUMED = ["translate", "pretrain-bert", "pretrain-t5", "pretrain-gpt", "classify", "rnn-translate"]
NEVER_RECORDED = {"rnn-translate", "word2vec", "glove", "image", "sentence-embeddings"}
CHANGES = {
    "pretrain-electra": ["objective.temperature=1e-6"],  # the generator's best guess: nothing is drawn
    "pretrain-t5": ["data.max_length=128", "train.tokens=512"],  # more than a tile of the kernel
}
ROOM = {"pretrain-electra": 0.1, "glove": 0.05}  # best guesses may differ in bf16; squares of small differences
WAIT = 300  # seconds for one process

Results = dict[str, dict[str, Any]]


def call(name: str, modes: list[str], changes: list[str], place: Path) -> Results:
    """Run a recipe in these modes in another process."""
    place.mkdir(parents=True)
    asked, found = place / "asked.json", place / "found.json"
    told = {"name": name, "modes": modes, "changes": changes, "out": str(place), "found": str(found)}
    asked.write_text(json.dumps(told))
    command = [sys.executable, "-m", "tests.gpu.recipe_runs", str(asked)]
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=WAIT, check=False)
    if not found.is_file():
        error = f"{command} ended with {done.returncode}:\n{done.stderr[-4000:]}"
        return {mode: {"error": error} for mode in modes}
    results: Results = json.loads(found.read_text())
    return results


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Results]]]:
    """Start every run that a selected test is about; the longest, which compile, come first."""
    asked = {key for item in request.session.items if item.module is request.module for key in needed(item)}
    place = tmp_path_factory.mktemp("recipes")
    files = write(tmp_path_factory.mktemp("data"))
    train("pretrain-bert", place / "start", files)

    def changes(name: str) -> list[str]:
        start = [f"model.init={place / 'start'}"] if name in NEEDS_INIT else []
        return [f"data.train={json.dumps(files[name])}", *EXTRA.get(name, []), *CHANGES.get(name, []), *start]

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 2)) as pool:
        futures: dict[str, Future[Results]] = {}
        jobs = [(n, m, COMPILED) for m in COMPILED for n in shipped()]
        jobs += [(n, "plain", PLAIN) for n in shipped()]
        jobs += [(n, "resume", ["resume-no", "resume-record"]) for n in RESUMED]
        for name, kind, modes in (job for job in jobs if f"{job[0]}/{job[1]}" in asked):
            futures[f"{name}/{kind}"] = pool.submit(call, name, modes, changes(name), place / name / kind)
        yield futures
        for future in futures.values():
            future.cancel()


def kind_of(mode: str) -> str:
    """Name the process that makes the run of a mode."""
    return mode if mode in COMPILED else "resume" if mode.startswith("resume") else "plain"


def needed(item: Any) -> list[str]:
    """Name the processes whose runs a test looks at."""
    name, kind = item.callspec.params["name"], kind_of(item.callspec.params.get("mode", "dropout"))
    return [f"{name}/{kind}", *([f"{name}/plain"] if kind != "resume" else [])]


def result(runs: dict[str, Future[Results]], name: str, mode: str) -> dict[str, Any]:
    found = runs[f"{name}/{kind_of(mode)}"].result()[mode]
    assert "error" not in found, found["error"]
    assert found["reason"] == "done"
    return found


@pytest.mark.parametrize("name", shipped())
@pytest.mark.parametrize("mode", ["no", "record", *COMPILED])
def test_losses_are_those_of_the_cpu(
    name: str, mode: str, runs: dict[str, Future[Results]], record_property: Callable[[str, object], None]
) -> None:
    found, wanted = result(runs, name, mode), result(runs, name, "cpu")
    mine, theirs = (x["losses"] + x["valid"] for x in (found, wanted))
    far = max(abs(a - b) / max(abs(b), 1.0) for a, b in zip(mine, theirs, strict=True))
    record_property("largest relative difference", f"{far:.2g}")  # --junitxml=FILE shows it
    assert far < ROOM.get(name, 0.03), f"{mine}\n{theirs}"
    assert max(theirs[:-1]) > min(theirs[:-1])  # something is learned, or nothing is said
    if ON_CUDA:
        assert found["counted"]
        assert found["recorded"] == (mode != "no" and name not in NEVER_RECORDED)


@pytest.mark.parametrize("name", shipped())
def test_its_own_dropout_stays_finite(name: str, runs: dict[str, Future[Results]]) -> None:
    found = result(runs, name, "dropout")
    assert len(found["losses"]) == 10
    assert all(map(math.isfinite, found["losses"] + found["valid"]))


@pytest.mark.parametrize("name", RESUMED)
@pytest.mark.parametrize("mode", ["resume-no", "resume-record"])
def test_resuming_continues_bit_for_bit(name: str, mode: str, runs: dict[str, Future[Results]]) -> None:
    found = result(runs, name, mode)
    assert found["compared"] > 2
    assert found["losses"] == found["whole"]
    assert not found["unlike"]
