"""Runs of recipes, made by a few processes at a time while other tests go on: compiling takes one core for long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qkv.models import catalogue
from qkv.recipes.schema import read_recipe
from qkv.recipes.shelf import shipped
from tests.gpu.device import ON_CUDA
from tests.runs.test_runs import EXTRA, NEEDS_GPT, NEEDS_INIT, train, write

ROOT = Path(__file__).parents[2]
COMPILED = ["yes"] if ON_CUDA else []
# The recurrent network is not among them: sums over segments have no fixed order on CUDA.
RESUMED = ["translate", "pretrain-bert", "pretrain-t5", "pretrain-gpt", "classify"]
PROCESSES = {
    **{mode: [mode] for mode in COMPILED},  # the longest come first
    "plain": ["cpu", "no", "record", "dropout"],
    "resume": ["resume-no", "resume-record"],
}
CHANGES = {
    "phrasebook": ["data.valid=[phrasebook:valid:100]"],
    "image": ["optim.lr=1e-4"],  # at higher rates, so few images let rounding errors grow
    "pairs": ["optim.lr=1e-5"],
    "pretrain-electra": ["objective.temperature=1e-6"],  # the generator's best guess: nothing is drawn
    "pretrain-t5": ["data.max_length=128", "train.tokens=512"],  # more than a tile of the kernel
}
WAIT = 300  # seconds for one process
SPARE = 3  # cores left to the tests that run beside them

Results = dict[str, dict[str, Any]]
Runs = dict[str, Future[Results]]


def process_of(name: str, mode: str) -> str:
    """Name the process that makes the run of a recipe in a mode."""
    return f"{name}/{next(kind for kind, modes in PROCESSES.items() if mode in modes)}"


def needed(params: dict[str, Any]) -> set[str]:
    """Name the processes whose runs a test looks at."""
    mode = params.get("mode", "dropout")
    compared = [] if mode.startswith("resume") else ["cpu"]
    return {process_of(params["name"], each) for each in (mode, *compared)}


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


@contextmanager
def started(asked: set[str], place: Path) -> Iterator[Runs]:
    """Start the processes that are asked for."""
    (place / "data").mkdir()
    files = write(place / "data")
    train("pretrain-bert", place / "start", files, "model.set.num_layers=1")
    train("pretrain-gpt", place / "gpt", files, "model.set.num_layers=1")
    starts = dict.fromkeys(NEEDS_INIT, place / "start") | dict.fromkeys(NEEDS_GPT, place / "gpt")

    def changes(name: str) -> list[str]:
        start = [f"model.init={starts[name]}"] if name in starts else []
        # One layer of each kind: compiling takes a core a minute with two (measured on the H200's machine).
        config = catalogue.preset(preset) if (preset := read_recipe(name).model.preset) else None
        layers = [key for key in ("num_layers", "num_decoder_layers") if config is not None and hasattr(config, key)]
        small = [] if start else [f"model.set.{key}=1" for key in layers]
        return [f"data.train={json.dumps(files[name])}", *EXTRA.get(name, []), *CHANGES.get(name, []), *start, *small]

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - SPARE)) as pool:
        runs: Runs = {}
        for kind, modes in PROCESSES.items():
            for name in shipped():
                if (key := f"{name}/{kind}") in asked:
                    runs[key] = pool.submit(call, name, modes, changes(name), place / name / kind)
        yield runs
        for future in runs.values():
            future.cancel()


def result(runs: Runs, name: str, mode: str) -> dict[str, Any]:
    """Wait for a run."""
    found = runs[process_of(name, mode)].result()[mode]
    assert "error" not in found, found["error"]
    assert found["reason"] == "done"
    return found
