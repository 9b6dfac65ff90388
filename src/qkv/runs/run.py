"""From a recipe to a trained model folder.

    files ─► tokenizer ─► stores ─► model ─► loop ─► model folder

Everything that can be wrong is found before anything heavy starts. A run's folder holds all of it: recipe.toml as
resolved, the tokenised data, metrics.jsonl, checkpoints/, best/, energy.json, and the model folder itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from qkv.checkpoints.folder import Folder, folder_files, read_folder, write_folder
from qkv.common import disk
from qkv.data.loaders import Loader
from qkv.data.order import Sampler
from qkv.data.packing import Staged
from qkv.data.store import Store
from qkv.evaluation.score import Score
from qkv.exams.evaluate import evaluate
from qkv.predict import Model, load
from qkv.predict.device import find_device
from qkv.recipes.check import check
from qkv.recipes.schema import Recipe, Say
from qkv.runs.prepare import Prepared, prepare, reading
from qkv.runs.run_folder import claim
from qkv.runs.stores import count_rows
from qkv.tasks.base import Task
from qkv.tokenizers.text import TextTokenizer
from qkv.training.loop import Outcome, train
from qkv.training.run import Job


def run_recipe(recipe: Recipe, *, resume: bool = False, device: str | None = None, say: Say) -> Outcome:
    """Train what a recipe says."""
    check(recipe)
    where = find_device(device)
    folder = Path(recipe.out)
    new = claim(folder, recipe, resume)
    try:
        prepared = prepare(recipe, folder, say)
        model = prepared.model.to(where).train()
        job = job_of(recipe, prepared, model, say)
    except BaseException:
        if new:  # a run that never began leaves nothing, so that the next try can have its place
            disk.remove(folder)
        raise
    say(f"{_count(model):,} weights, {count_rows(prepared.train):,} examples, {job.total:,} steps, on {where.type}")
    outcome = train(job, recipe.train, recipe.optim, recipe.log, resume=resume)
    disk.replace_file(folder / "energy.json", json.dumps(outcome.energy, indent=2).encode() + b"\n")
    if outcome.finished:
        finish_task(prepared, device)
    return outcome


def finish_task(prepared: Prepared, device: str | None) -> None:
    """Let the task finish the run's model and the one of its best validation."""
    context = prepared.context
    for place in (prepared.folder, prepared.folder / "best"):
        if not (place / "config.json").is_file():
            continue
        found = read_folder(place)
        told = context if place == prepared.folder else replace(context, say=lambda _: None)
        changed = prepared.task.after_training(found, Model(found, device=device), told, prepared.train, prepared.valid)
        if changed is not None:
            for name, data in folder_files(changed).items():
                disk.replace_file(place / name, data)


def score_test(
    recipe: Recipe, *, device: str | None = None, progress: Callable[[int], None] | None = None
) -> list[Score]:
    """Score the model that a recipe has trained on its test files."""
    return evaluate(load(recipe.out, device=device), recipe.data.test, reading(recipe), progress)


def job_of(recipe: Recipe, prepared: Prepared, model: nn.Module, say: Say) -> Job:
    """Make what the loop is given."""
    task, context, config = prepared.task, prepared.context, recipe.train

    def loader(store: Store, shuffle: bool) -> Loader[Any]:
        sampler = task.sampler(store, context, tokens=config.tokens, seed=config.seed, shuffle=shuffle)
        epochs = None if shuffle else 1
        return Loader(sampler, task.collate(store, context), workers=config.workers, epochs=epochs)

    training, validation = loader(prepared.train, True), loader(prepared.valid, False)

    def valid() -> Iterable[Any]:
        return (batch for batch, _ in validation.iterate())

    def finish(module: nn.Module, where: Path) -> None:
        for name, (numbers, part) in task.saved(module, context.config).items():
            tokenizer = _limited(context.tokenizer, task, numbers)
            found = Folder(numbers, part, tokenizer, **task.folder_facts(context))
            if where / name != prepared.folder:
                write_folder(found, where / name)
                continue
            for file, data in folder_files(found).items():  # the run's own folder keeps its other files
                disk.replace_file(where / file, data)

    total = config.steps or max(1, round(config.epochs * _batches(training.sampler) / config.accumulate))
    if isinstance(training.sampler, Staged):
        training = replace(training, sampler=training.sampler.over(total * config.accumulate))
    return Job(model, task.objective(), training.iterate, total, prepared.folder, valid, finish, say)


def _limited(tokenizer: TextTokenizer | None, task: Task, config: Any) -> TextTokenizer | None:
    """Let a model that reads whole texts remember how long its training texts were."""
    longest = task.data.max_length
    if tokenizer is None or not task.keeps_length:
        return tokenizer
    return tokenizer.limited(min(longest, getattr(config, "max_length", longest)))


def _batches(sampler: Sampler) -> int:
    """Count the batches of the first epoch."""
    return sum(1 for _ in _epoch(sampler))


def _epoch(sampler: Sampler) -> Iterator[int]:
    position = 0
    while True:
        pick = sampler.batch(position)
        if pick.epoch > 0:
            return
        yield position
        position = pick.next_position


def _count(model: nn.Module) -> int:
    return sum(math.prod(parameter.shape) for parameter in model.parameters())
