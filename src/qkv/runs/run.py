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

import torch
from torch import nn

from qkv.checkpoints.folder import Folder, folder_files, write_folder
from qkv.common import disk
from qkv.common.errors import system_errors
from qkv.data.loaders import Loader
from qkv.data.order import Sampler
from qkv.data.packing import Staged
from qkv.data.store import Store
from qkv.evaluation.score import Score
from qkv.exams.evaluate import evaluate
from qkv.predict import load
from qkv.predict.device import find_device
from qkv.recipes.check import check
from qkv.recipes.schema import Recipe, Say
from qkv.runs.class_rates import check_biases, match_rates
from qkv.runs.no_answer import choose_threshold
from qkv.runs.prepare import Prepared, prepare, reading
from qkv.runs.run_folder import claim, held
from qkv.runs.stores import valid_questions
from qkv.tasks.answer import AnswerTask
from qkv.tokenizers.text import TextTokenizer
from qkv.training.loop import Outcome, train
from qkv.training.run import Job

READERS = ("classify", "regress", "tag", "answer", "embeddings")


def run_recipe(recipe: Recipe, *, resume: bool = False, device: str | None = None, say: Say) -> Outcome:
    """Train what a recipe says."""
    check(recipe)
    where = find_device(device)
    with system_errors(), held(Path(recipe.out)):
        return _run(recipe, where, resume, device, say)


def _run(recipe: Recipe, where: torch.device, resume: bool, device: str | None, say: Say) -> Outcome:
    folder = Path(recipe.out)
    new = claim(folder, recipe, resume)
    try:
        prepared = prepare(recipe, folder, say)
        if recipe.train.match_rates:
            check_biases(prepared.model)
        model = prepared.model.to(where).train()
        job = job_of(recipe, prepared, model, say)
    except BaseException:
        if new:  # a run that never began leaves nothing, so that the next try can have its place
            disk.remove(folder)
        raise
    say(f"{_count(model):,} weights, {len(prepared.train):,} examples, {job.total:,} steps, on {where.type}")
    outcome = train(job, recipe.train, recipe.optim, recipe.log, resume=resume)
    disk.replace_file(folder / "energy.json", json.dumps(outcome.energy, indent=2).encode() + b"\n")
    if outcome.finished and recipe.train.match_rates:
        match_rates(prepared, device=device, say=say)
    if outcome.finished and isinstance(prepared.task, AnswerTask) and prepared.no_answer:
        choose_threshold(folder, valid_questions(prepared.task, recipe.data), device=device, say=say)
    return outcome


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
        for name, (numbers, part) in task.saved(module, context.config, context.settings).items():
            tokenizer = _limited(context.tokenizer, recipe, numbers)
            multi_label, no_answer = bool(recipe.data.separator), prepared.no_answer
            found = Folder(numbers, part, tokenizer, context.labels, multi_label=multi_label, no_answer=no_answer)
            if where / name != prepared.folder:
                write_folder(found, where / name)
                continue
            for file, data in folder_files(found).items():  # the run's own folder keeps its other files
                disk.replace_file(where / file, data)

    total = config.steps or max(1, round(config.epochs * _batches(training.sampler) / config.accumulate))
    if isinstance(training.sampler, Staged):
        training = replace(training, sampler=training.sampler.over(total * config.accumulate))
    return Job(model, task.objective(context.settings), training.iterate, total, prepared.folder, valid, finish, say)


def _limited(tokenizer: TextTokenizer | None, recipe: Recipe, config: Any) -> TextTokenizer | None:
    """Let a model that reads whole texts remember how long those were that it was trained on."""
    if tokenizer is None or recipe.task not in READERS:
        return tokenizer
    return tokenizer.limited(min(recipe.data.max_length, getattr(config, "max_length", recipe.data.max_length)))


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
