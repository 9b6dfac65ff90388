"""Run the jobs of defaults.py side by side: long-lived worker processes, one line of JSON for each finished job."""

from __future__ import annotations

import gc
import json
import math
import os
import shlex
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from defaults_cells import Cell

Found = dict[str, Any]

OWN = "recipe"  # the setting of a run without changes
NEVER = 1e9  # steps
SCRATCH = {"model.preset": "bert-mini"}  # for tasks that usually start from a pretrained encoder


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run.

    Attributes:
        cell: the data and the recipe.
        side: qkv, hf (a plain loop with `transformers`) or bow (a bag of words).
        start: minilm, english or scratch.
        seed: the seed.
        setting: changes of the recipe ("optim.lr=1e-4 train.epochs=5"), or "recipe" for none; for hf, the rate
            ("lr=2e-5").
        epochs: passes over the data; only hf uses it.
        device: "cpu", "cuda" or None for CUDA if it is available.
        checkpoints: save checkpoints as the recipe says.
        tested: the number of test examples to use; None uses all.
    """

    cell: Cell
    side: str
    start: str
    seed: int
    setting: str = OWN
    epochs: float = 3
    device: str | None = None
    checkpoints: bool = False
    tested: int | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies the run in a file of results."""
        return key_of(self.facts())

    def facts(self) -> Found:
        """The first columns of a line of results."""
        names = {"cell": self.cell.name, "start": self.start, "side": self.side, "setting": self.setting}
        return {**names, "seed": self.seed, "metric": self.cell.set.metric, "examples": self.cell.count}

    @property
    def cost(self) -> float:
        """A rough estimate of the work, to begin with the longest jobs."""
        text = sum(len(str(row)) for row in self.cell.rows("train"))
        return text * {"translate": 20, "answer": 2}.get(self.cell.set.recipe, 1)


def key_of(line: Found) -> tuple[str, ...]:
    return tuple(str(line[name]) for name in ("cell", "start", "side", "setting", "seed"))


def read_lines(paths: Iterable[Path]) -> list[Found]:
    """Read results, without a last line that was cut short."""
    found = []
    for path in paths:
        for text in path.read_text("utf-8").splitlines():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            found.append(line | {"file": path.stem})
    return found


def left_to_do(jobs: Sequence[Job], done: Iterable[Found]) -> list[Job]:
    """Return the jobs that have not succeeded, the longest first."""
    finished = {key_of(line) for line in done if "failed" not in line}
    left = [job for job in jobs if job.key not in finished]
    cost = {job.cell.name: 0.0 for job in left}
    for job in left:
        cost[job.cell.name] = cost[job.cell.name] or job.cost
    return sorted(left, key=lambda job: -cost[job.cell.name])


def ours(job: Job, place: Path, minilm: Path) -> Found:
    """Train with the recipe and score the run's folder on the test file."""
    from qkv import load
    from qkv.exams.evaluate import evaluate
    from qkv.recipes.schema import change, read_recipe
    from qkv.runs.prepare import reading
    from qkv.runs.run import run_recipe

    name, changes = changed(job)
    given = {
        **start_of(job, minilm), "data.train": job.cell.write("train", place), "train.seed": job.seed,
        "out": str(place / "run"),
    }  # fmt: skip
    recipe = change(read_recipe(name), given | changes)
    if recipe.train.average_last == 0 and not job.checkpoints:  # they change nothing, but take longer than small runs
        recipe = change(recipe, {"train.save_every": NEVER})
    said: list[str] = []
    begin = time.perf_counter()
    outcome = run_recipe(recipe, device=job.device, say=said.append)
    seconds = time.perf_counter() - begin
    resolved = read_recipe(f"{recipe.out}/recipe.toml")
    test = job.cell.write("test", place, job.tested)
    scores = evaluate(load(recipe.out, device=job.device), test, reading(resolved))
    return {
        "scores": by_name(scores), "seconds": round(seconds, 1),
        "train_seconds": outcome.energy["seconds"], "steps": outcome.step, "reason": outcome.reason,
        "epochs": passes(resolved, outcome.step), "resolved": settings(resolved), "said": said[-3:],
        "valid": curve(Path(recipe.out)),
    }  # fmt: skip


def by_name(scores: Sequence[Any]) -> dict[str, float]:
    """Return scores by name; BLEU comes before its lower-cased variant, which has the same name."""
    return {score.name: score.value for score in reversed(scores)}


def start_of(job: Job, minilm: Path) -> Found:
    """Return the keys of a recipe that say what to start from."""
    from qkv.predict.loading import PRETRAINED

    if job.cell.set.recipe == "translate":
        return {}
    if job.start == "scratch":
        return SCRATCH
    return {"model.init": str(minilm if job.start == "minilm" else PRETRAINED / job.start)}


def changed(job: Job) -> tuple[str, Found]:
    """Return the recipe of a job and the keys to change; `recipe=NAME` in the setting names another recipe."""
    from qkv.recipes.renamed import with_new_names
    from qkv.recipes.schema import parse_change

    changes = dict(map(parse_change, shlex.split(job.setting))) if job.setting != OWN else {}
    return changes.pop("recipe", job.cell.set.recipe), with_new_names(changes)


def settings(recipe: Any) -> Found:
    """Return what a recipe resolved to, without paths."""
    parts = {name: asdict(getattr(recipe, name)) for name in ("optim", "train", "tokenizer")}
    model = {"preset": recipe.model.preset, "set": recipe.model.set}
    lengths = {"max_length": recipe.data.max_length, "held_out": recipe.data.held_out, "dropout": recipe.data.dropout}
    return {**parts, "objective": recipe.objective, "model": model, "data": lengths}


def passes(recipe: Any, steps: int) -> float:
    """Return the passes over the training data: those of the recipe, or what its steps amount to."""
    if not recipe.train.steps:
        return float(recipe.train.epochs)
    from qkv.data.store import Store
    from qkv.tasks.table import read_task

    store = Store.open(Path(recipe.data.cache or Path(recipe.out) / "data") / "train")
    total = int(read_task(recipe.task, recipe.objective, recipe.data).lengths(store).sum())
    return round(steps * recipe.train.accumulate * recipe.train.tokens / total, 2)


def curve(folder: Path) -> list[list[float]]:
    """Return step and loss of each validation."""
    from qkv.training.logging import read_metrics

    return [[line["step"], round(line["valid_loss"], 5)] for line in read_metrics(folder) if "valid_loss" in line]


def perform(job: Job, minilm: Path, room: str) -> Found:
    """Run a job in a temporary folder inside `room`. A failure is a result too."""
    from defaults_peers import bag_of_words, hugging_face

    side: Callable[[Job, Path, Path], Found] = {"qkv": ours, "hf": hugging_face, "bow": bag_of_words}[job.side]
    try:
        with tempfile.TemporaryDirectory(dir=room) as place:
            found = side(job, Path(place), minilm)
        value = found["scores"][job.cell.set.metric]
        scale = 1 if job.cell.set.metric == "BLEU" else 100
        return {"score": round(scale * (0.0 if math.isnan(value) else value), 3), **found}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}", "trace": traceback.format_exc().splitlines()[-12:]}
    finally:
        gc.collect()


def worker(pipe: Connection, minilm: Path, room: str) -> None:
    """Run the jobs that come through a pipe, until one fails: a CUDA error leaves nothing to go on with."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the progress of many runs at a time says nothing
    import torch

    torch.set_num_threads(1)
    while True:
        found = perform(pipe.recv(), minilm, room)
        pipe.send(found)
        if "failed" in found:
            return
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@dataclass
class Pool:
    """Worker processes, each with the job that it is running.

    Attributes:
        minilm: the folder of MiniLM.
        room: a folder for the runs.
        busy: the process and its job, by the pipe to it.
    """

    minilm: Path
    room: str
    busy: dict[Connection, tuple[Any, Job]] = field(default_factory=dict)

    def start(self, job: Job) -> None:
        """Start a process with its first job."""
        context = get_context("spawn")
        near, far = context.Pipe()
        process = context.Process(target=worker, args=(far, self.minilm, self.room), daemon=True)
        process.start()
        far.close()
        near.send(job)
        self.busy[near] = (process, job)

    def finish(self, pipe: Connection, queue: deque[Job]) -> tuple[Job, Found]:
        """Receive a result and give the process its next job; a process that failed is replaced."""
        process, job = self.busy.pop(pipe)
        try:
            found = pipe.recv()
        except EOFError:
            process.join()
            found = {"failed": f"the process ended with exit code {process.exitcode}"}
        if "failed" not in found and queue:
            self.busy[pipe] = (process, queue.popleft())
            pipe.send(self.busy[pipe][1])
        else:
            process.kill()
            if queue:
                self.start(queue.popleft())
        return job, found

    def stop(self) -> None:
        """End all processes at once; a training run would answer SIGTERM with a checkpoint."""
        for process, _ in self.busy.values():
            process.kill()
            process.join()


def run_all(
    jobs: Sequence[Job], *, count: int, seconds: float, minilm: Path, record: Callable[[Job, Found], None]
) -> list[Job]:
    """Run jobs in `count` processes for at most `seconds`. Returns the jobs that were not finished."""
    end, queue = time.monotonic() + seconds, deque(jobs)
    with tempfile.TemporaryDirectory(prefix="defaults-", ignore_cleanup_errors=True) as room:
        pool = Pool(minilm, room)
        try:
            for _ in range(min(count, len(queue))):
                pool.start(queue.popleft())
            while pool.busy and (ready := wait(list(pool.busy), timeout=max(0.0, end - time.monotonic()))):
                for pipe in ready:
                    record(*pool.finish(pipe, queue))  # type: ignore[arg-type]
            return [job for _, job in pool.busy.values()] + list(queue)
        finally:
            pool.stop()
