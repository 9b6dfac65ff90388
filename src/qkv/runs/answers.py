"""The answers of a teacher as training files: to texts without answers, or in the place of those in the files.

    texts ───────────────┐      parts of 512, each written once
    training examples ─┬─┴─► teacher/part-0.jsonl, … ─┐
                       └─► held out ─► valid.jsonl    └─► train.jsonl ─► a run like any other

The files are in the format of the task, in the folder `teacher` of the run. Validation and test examples keep the
answers of the files. A run that is stopped meanwhile goes on with the next part.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from qkv.common import disk
from qkv.common.errors import QkvError, StorageError, UsageError
from qkv.common.progress import Bar
from qkv.data.bad_rows import BadRows
from qkv.predict import Model, load
from qkv.recipes.schema import Recipe, Say, change
from qkv.runs.inputs import contents
from qkv.runs.layout import TEACHER, is_run
from qkv.runs.own import Own
from qkv.runs.questions import Questions
from qkv.runs.resolve import resolve
from qkv.runs.run_folder import check_free
from qkv.tasks.base import Task
from qkv.training.energy import Energy, Meter

MANIFEST, TABLE = "answers.json", "answers"
PART = 512  # texts that are answered and written at a time, as many as `translate_stream` holds
VERSION = 1
READS = ("format", "encoding", "unit", "text", "second", "label", "separator", "skip_bad")  # keys of [data]
COLUMNS = ("text", "second", "label")


def with_answers(recipe: Recipe, *, resume: bool, device: torch.device, own: Own, say: Say) -> Recipe:
    """Return the recipe of a run that learns a teacher's answers, which are written into its folder first.

    It reads the written files instead of those of the recipe. Answers that are there already are not asked for again.
    """
    folder = Path(recipe.out)
    if not recipe.distill.answers and not recipe.distill.texts:
        return recipe
    if isinstance(own.task, Task) or own.batches is not None:
        raise UsageError(
            "distill.texts and distill.answers are for files that qkv reads: give a class of tasks, no batches"
        )
    if is_run(folder) and not resume:  # which is refused
        return recipe
    if not is_run(folder):
        check_free(folder)
    place, key = folder / TEACHER, _key(recipe)
    kept = _kept(place)
    if is_run(folder) and kept.get("key") != key:
        raise UsageError(
            f"{folder} began with other texts, files or settings, or with another teacher: resume it with the same "
            "ones, or choose another folder with --set out=…"
        )
    if kept.get("key") != key:
        disk.remove(place)
    if kept.get("key") != key or "changes" not in kept:
        kept = _made(recipe, own, place, key, device, say)
    return _written(recipe, place, kept["files"], kept["changes"])


def energy_of_answers(folder: Path) -> Energy | None:
    """Return what the answers that a run learns have cost, also those of earlier attempts; None if it has none."""
    found = _kept(folder / TEACHER).get("energy")
    return None if found is None else Energy(**found)


def agrees_with_teacher(folder: str) -> bool:
    """Whether the validation examples of a run have the answers of its teacher, so that scores are agreement."""
    return bool(_kept(Path(folder) / TEACHER).get("agreement"))


def _made(recipe: Recipe, own: Own, place: Path, key: str, device: torch.device, say: Say) -> dict[str, Any]:
    """Let the teacher answer what it has not answered yet; return the manifest."""
    name = recipe.distill.teacher
    meter = Meter(device, energy_of_answers(place.parent))
    model = load(name, device=str(device))
    task, recipe, changes = _task(recipe, own, model, say)
    facts = {}
    if task.data.train:
        facts = task.taught_facts(task.survey(task.examples(task.data.train, BadRows()), _quiet), model.contents, name)
    questions = Questions.of(task, recipe)
    writer = replace(task, data=replace(task.data, **_named(task)))
    total = questions.count(writer, say)
    with disk.no_space(str(place)):
        place.mkdir(parents=True, exist_ok=True)
        _keep_energy(place, key, meter)
    labels = tuple(facts.get("labels", ()))

    def ask(some: list[Any]) -> bytes:
        found = b"".join(_line(writer.record(one)) for one in task.answered(some, model, labels))
        _keep_energy(place, key, meter)
        return found

    _answer(questions.asked(), total, place, name, ask)
    counts = _write(questions, writer, place, total)
    if not counts["answers"]:
        disk.remove(place)
        raise QkvError(f"{name} has no answer to any of the {total:,} texts")
    left = total - counts["answers"]
    say(
        f"{name} has answered {counts['answers']:,} texts"
        + (f"; {left:,} without an answer are left out" if left else "")
    )
    changes |= {"data.separator": task.data.separator, **_named(task, "data.")}
    about: dict[str, Any] = {"teacher": name, "texts": list(recipe.distill.texts), "files": _files(place), **counts}
    about["energy"] = asdict(meter.read())
    found = {"key": key, **about, "agreement": not counts["valid"] and not counts["kept"], "changes": changes}
    _keep(place, found)
    for part in place.glob("part-*"):
        disk.remove(part)
    return found


def _task(recipe: Recipe, own: Own, model: Model, say: Say) -> tuple[Task, Recipe, dict[str, Any]]:
    """Return the task that reads the files, its recipe, and the keys that go with the teacher's answers.

    The share of the examples to hold out is what the rules say, if the recipe leaves it to them.
    """
    data, name = recipe.data, recipe.distill.teacher
    if not own.task_for(recipe).can_teach(model):
        raise UsageError(f"distill.teacher: {name} cannot answer texts for the task {recipe.task}")
    if "data.held_out" in (recipe.auto or ()) and data.train and not data.valid:
        found = resolve(replace(recipe, auto=("data.held_out",)), Path(), own, _quiet)
        recipe = replace(recipe, data=replace(data, held_out=found.data.held_out))
    changes = own.task_for(recipe).answered_changes(model)
    recipe = change(recipe, changes)
    task = own.task_for(recipe)
    if labelled := data.train or data.valid or data.test:
        seen = replace(task, data=replace(task.data, train=labelled)).resolved(say)
        task = replace(seen, data=replace(seen.data, train=data.train))
    return task, recipe, changes


def _named(task: Task, before: str = "") -> dict[str, Any]:
    """Return the columns of the written files: named as in the files, or, if these have only numbers, by default."""
    return {before + key: "" if (name := getattr(task.data, key)).startswith("#") else name for key in COLUMNS}


def _answer(questions: Iterator[Any], total: int, place: Path, name: str, ask: Callable[[list[Any]], bytes]) -> None:
    """Write a file for each part of the questions; one that is there is not asked again."""
    parts = [place / f"part-{number}.jsonl" for number in range(math.ceil(total / PART))]
    with Bar(f"answers of {name}", total=total) as bar:
        for part in parts:
            some = list(islice(questions, PART))
            if not part.is_file():
                with disk.no_space(str(part)):
                    disk.replace_file(part, ask(some))
            bar.add(len(some))


def _write(questions: Questions, writer: Task, place: Path, total: int) -> dict[str, int]:
    """Write the files that the run reads; return how many rows there are of each kind."""
    found = dict.fromkeys(("kept", "answers", "valid", "test"), 0)
    with disk.streaming(place / "train.jsonl") as out:
        for example in questions.kept():
            out.write(_line(writer.record(example)))
            found["kept"] += 1
        for number in range(math.ceil(total / PART)):
            data = (place / f"part-{number}.jsonl").read_bytes()
            out.write(data)
            found["answers"] += data.count(b"\n")
    for name, examples in (("valid", questions.valid()), ("test", questions.test())):
        if (first := next(examples, None)) is None:
            continue
        with disk.streaming(place / f"{name}.jsonl") as out:
            for example in chain([first], examples):
                out.write(_line(writer.record(example)))
                found[name] += 1
    return found


def _files(place: Path) -> dict[str, str]:
    """Return the SHA-256 of each written file by its part."""
    names = ("train", "valid", "test")
    return {name: disk.digest_of(file) for name in names if (file := place / f"{name}.jsonl").is_file()}


def _written(recipe: Recipe, place: Path, files: Iterable[str], changes: Mapping[str, Any]) -> Recipe:
    """Return the recipe of an ordinary run on the written files."""
    paths = {
        f"data.{part}": [str(place / f"{part}.jsonl")] if part in files else [] for part in ("train", "valid", "test")
    }
    done = {"distill.answers": False, "distill.texts": [], "data.format": "", "data.encoding": ""}
    return change(recipe, {**paths, **done, **changes})


def _key(recipe: Recipe) -> str:
    """Hash everything that the answers depend on."""
    data, distill = recipe.data, recipe.distill
    reading = {key: value for key, value in asdict(data).items() if key in READS}
    held_out = None if "data.held_out" in (recipe.auto or ()) else data.held_out
    groups = [data.train, data.valid, data.test, distill.texts]
    decides = [VERSION, PART, recipe.task, distill.answers, held_out, reading, list(map(len, groups))]
    files = contents([path for group in groups for path in group], distill.teacher)
    return hashlib.sha256(json.dumps([decides, files]).encode()).hexdigest()


def _kept(place: Path) -> dict[str, Any]:
    """Return the manifest; empty if there is none, or if it or a file that it names is not whole."""
    found: dict[str, Any] = {}
    with suppress(StorageError):
        found = disk.read_table(place / MANIFEST, TABLE)
    whole = all((place / f"{part}.jsonl").is_file() for part in found.get("files", ()))
    return found if whole else {}


def _keep(place: Path, found: dict[str, Any]) -> None:
    with disk.no_space(str(place)):
        disk.replace_file(place / MANIFEST, disk.table_bytes(TABLE, found))


def _keep_energy(place: Path, key: str, meter: Meter) -> None:
    _keep(place, {"key": key, "energy": asdict(meter.read())})


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _quiet(_: str) -> None:
    pass
