"""From a recipe to a trained model folder.

    files ─► tokenizer ─► stores ─► model ─► loop ─► model folder

Errors in the recipe are found before anything slow starts. The run's folder holds everything: the resolved
recipe.toml, the tokenised data, metrics.jsonl, checkpoints/, best/, energy.json, and the model folder itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.checkpoints.update import with_digests
from qkv.checkpoints.weights import WHOLE, weight_bytes
from qkv.common import disk
from qkv.common.config import override
from qkv.common.errors import QkvError, system_errors
from qkv.data.loaders import Loader
from qkv.data.order import Sampler
from qkv.data.packing import Staged
from qkv.evaluation.score import Score
from qkv.exams.evaluate import evaluate
from qkv.objectives.matching import without_projections
from qkv.predict import Model, load
from qkv.predict.device import find_device
from qkv.recipes.check import check
from qkv.recipes.default_model import with_default_model
from qkv.recipes.schema import Recipe, Say
from qkv.runs.answers import with_answers
from qkv.runs.layout import RECIPE
from qkv.runs.measure import Measure
from qkv.runs.outcome import attempt, close_run, settled
from qkv.runs.own import Own
from qkv.runs.prepare import Prepared, prepare, reading
from qkv.runs.report import kept_scores, write_report
from qkv.runs.resolve import resolve
from qkv.runs.run_folder import held, open_folder, remove_run
from qkv.runs.start import with_commit
from qkv.runs.stores import count_rows
from qkv.tasks.base import Task
from qkv.tasks.table import find_task, read_task
from qkv.tokenizers.text import TextTokenizer
from qkv.training.loop import Outcome, train
from qkv.training.run import Job, check_compile
from qkv.training.threads import use_threads

FINISHED = "{} is finished: there is nothing to resume"


def run_recipe(
    recipe: Recipe,
    *,
    resume: bool = False,
    device: str | None = None,
    say: Say,
    own: Own | None = None,
    report: bool = True,
) -> Outcome:
    """Run a recipe, with the parts that the caller provides; a finished run ends with a report."""
    own = own or Own()
    if own.model is None:
        recipe = with_default_model(recipe, own.task_for(recipe), say)
    check(recipe, task=own.task_for(recipe), reads_data=own.batches is None)
    where = find_device(device)
    if recipe.distill.asks and recipe.train.compile == "auto":  # layers that are matched are watched while they run
        recipe = override(recipe, {"train.compile": "no" if recipe.distill.matches else "record"})
    check_compile(recipe.train.compile, where)
    with system_errors(), held(Path(recipe.out)), use_threads(recipe.train.threads):
        recipe = with_commit(recipe, Path(recipe.out) / RECIPE, say)
        recipe = with_answers(recipe, resume=resume, device=where, own=own, say=say)
        recipe = resolve(recipe, Path(recipe.out) / RECIPE, own, say)
        return _run(recipe, where, resume, say, own, report)


def _run(recipe: Recipe, where: torch.device, resume: bool, say: Say, own: Own, report: bool) -> Outcome:
    folder = Path(recipe.out)
    new = open_folder(folder, recipe, resume)
    if not new and (done := settled(folder, keep=recipe.train.keep_checkpoints)) is not None:
        say(FINISHED.format(folder))
        return done
    try:
        prepared = prepare(recipe, folder, say, own)
        model = prepared.model.to(where).train()
        job = job_of(recipe, prepared, model, say, own)
    except BaseException:
        if new:  # remove a run that failed before its first step, so that you can start it again
            remove_run(folder)
        raise
    examples = "" if prepared.train is None else f"{count_rows(prepared.train):,} examples, "
    say(f"{_count(model):,} weights, {examples}{job.total:,} steps, on {where.type}")
    with attempt(folder):
        outcome = train(job, recipe.train, recipe.optim, recipe.log, resume=resume)
    disk.replace_file(folder / "energy.json", json.dumps(outcome.energy, indent=2).encode() + b"\n")
    if outcome.finished and prepared.train is not None:
        finish_task(prepared, str(where))
        if isinstance(job.measure, Measure) and outcome.scores and (advice := job.measure.advice(outcome.scores)):
            say(advice)
    if report and outcome.finished:
        write_report(recipe, prepared.task, outcome, device=str(where), say=say)
    close_run(folder, outcome, keep=recipe.train.keep_checkpoints)
    return outcome


def run_or_resume(
    recipe: Recipe,
    *,
    device: str | None,
    say: Say,
    report: bool = True,
    again: str = "run the same command again to continue",
) -> Outcome:
    """Run a recipe to its end, from where it was stopped if it was; if it is stopped, the error says `again`."""
    resume = (Path(recipe.out) / RECIPE).is_file()
    outcome = run_recipe(recipe, resume=resume, device=device, say=say, report=report)
    if not outcome.finished:
        raise QkvError(f"stopped by {outcome.reason} after {outcome.step} steps: {again}")
    return outcome


def finish_task(prepared: Prepared, device: str) -> None:
    """Run the task's `after_training` on the final model and on the best validated one."""
    context = prepared.context
    for place in (prepared.folder, prepared.folder / "best"):
        if not (place / "config.json").is_file():
            continue
        found = read_folder(place)
        told = context if place == prepared.folder else replace(context, say=lambda _: None)
        changed = prepared.task.after_training(found, Model(found, device=device), told, prepared.train, prepared.valid)
        if changed is not None:
            write_folder(changed, place, mode="update", dtype=prepared.dtype)


def score_test(
    recipe: Recipe, *, device: str | None = None, progress: Callable[[int], None] | None = None
) -> list[Score]:
    """Return the scores of a trained model on the recipe's test files: from its report, or computed now."""
    if (kept := kept_scores(Path(recipe.out))) is not None:
        return kept
    model = load(recipe.out, device=device)
    task = read_task(recipe.task, recipe.objective, recipe.data)
    tester = task.tester(model, reading(recipe)) if task.can_score(model) else None
    return evaluate(model, recipe.data.test, reading(recipe), progress, task=tester, ends=True)


def scorer(model: Model, name: str) -> type[Task] | None:
    """Return the task of a run if it can score the model; None if another has to be found."""
    task = find_task(name)
    return task if task.can_score(model) else None


def job_of(recipe: Recipe, prepared: Prepared, model: nn.Module, say: Say, own: Own | None = None) -> Job:
    """Create the inputs of the training loop."""
    own = own or Own()
    if own.batches is None:
        batches, total, valid = _batches(recipe, prepared)
    else:
        batches, total, valid = own.batches, recipe.train.steps, own.valid_batches
    objective = prepared.task.objective_for(prepared.context) if own.objective is None else own.objective
    if prepared.teaching is not None:
        objective = prepared.teaching.around(objective)
    finish = _weights_alone if own.model is not None else _writer(prepared)
    measure = Measure(prepared) if own.batches is None and own.model is None and prepared.task.measured else None
    return Job(model, objective, batches, total, prepared.folder, valid, finish, say, own.callbacks, measure)


def _batches(recipe: Recipe, prepared: Prepared) -> tuple[Any, int, Any]:
    """Return the training batches, the number of steps and the validation batches."""
    task, context, config = prepared.task, prepared.context, recipe.train

    def loader(store: Any, shuffle: bool) -> Loader[Any]:
        sampler = task.sampler(store, context, tokens=config.tokens, seed=config.seed, shuffle=shuffle)
        epochs = None if shuffle else 1
        return Loader(sampler, task.collate(store, context), workers=config.workers, epochs=epochs)

    training, validation = loader(prepared.train, True), loader(prepared.valid, False)
    total = config.steps or max(1, round(config.epochs * _epoch(training.sampler) / config.accumulate))
    if isinstance(training.sampler, Staged):
        training = replace(training, sampler=training.sampler.over(total * config.accumulate))
    return training.iterate, total, lambda: (batch for batch, _ in validation.iterate())


def _writer(prepared: Prepared) -> Callable[[nn.Module, Path], None]:
    """Return a function that writes the model folder or folders of a task."""
    task, context = prepared.task, prepared.context

    def write(module: nn.Module, where: Path) -> None:
        with without_projections(module):
            for name, (numbers, part) in task.saved(module, context.config, context).items():
                tokenizer = _limited(context.tokenizer, task, numbers)
                found = Folder(numbers, part, tokenizer, **task.folder_facts(context))
                place = where / name
                mode: Literal["replace", "update"] = "update" if place == prepared.folder else "replace"
                write_folder(found, place, mode=mode, dtype=prepared.dtype)

    return write


def _weights_alone(module: nn.Module, where: Path) -> None:
    """Write the weights of the caller's own module, which has no config."""
    where.mkdir(exist_ok=True)
    for name, data in with_digests({WHOLE: weight_bytes(module.state_dict())}).items():
        disk.replace_file(where / name, data)


def _limited(tokenizer: TextTokenizer | None, task: Task, config: Any) -> TextTokenizer | None:
    """Store the length limit of training in the tokenizer, for tasks that read whole texts."""
    longest = task.data.max_length
    if tokenizer is None or not task.keeps_length:
        return tokenizer
    return tokenizer.limited(min(longest, getattr(config, "max_length", longest)))


def _epoch(sampler: Sampler) -> int:
    """Count the batches of the first epoch."""
    count = position = 0
    while (pick := sampler.batch(position)).epoch == 0:
        count, position = count + 1, pick.next_position
    return count


def _count(model: nn.Module) -> int:
    return sum(math.prod(parameter.shape) for parameter in model.parameters())
