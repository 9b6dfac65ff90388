"""Prepare a run from its recipe: tokenizer, model and tokenised examples."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qkv.checkpoints.folder import DTYPES, Folder, read_folder
from qkv.checkpoints.state import steps
from qkv.common.config import override
from qkv.common.errors import UsageError
from qkv.common.progress import Bar
from qkv.data.config import DataConfig
from qkv.models import catalogue
from qkv.predict import find
from qkv.recipes.check import options_of
from qkv.recipes.schema import INIT, Recipe, Say
from qkv.runs.coverage import tell_coverage
from qkv.runs.own import Own
from qkv.runs.run_folder import find_tokenizer, keep_tokenizer
from qkv.runs.stores import stores
from qkv.runs.student import student_of
from qkv.runs.teacher import Teaching, check_vocabulary, read_teacher, teaching
from qkv.runs.trained_on import keep_reading
from qkv.tasks.base import Context, Task
from qkv.tasks.table import read_task
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import train_tokenizer


@dataclass(frozen=True)
class Prepared:
    """Everything that training needs, built from a recipe.

    Attributes:
        task: the task, with open settings resolved from the files.
        context: the tokenizer, model config and other inputs of the task.
        model: with random weights, or the weights of `model.init`.
        folder: the run's folder.
        train: the training store; for a mixture, the store of each part by name.
        valid: the validation store, in the same form.
        teaching: the teacher, if there is one.
        dtype: of the stored weights.
    """

    task: Task
    context: Context
    model: nn.Module
    folder: Path
    train: Any
    valid: Any
    teaching: Teaching | None = None
    dtype: str = "float32"


def prepare(recipe: Recipe, folder: Path, say: Say, own: Own | None = None) -> Prepared:
    """Create the tokenizer, model and stores; reuse those of an earlier attempt."""
    own = own or Own()
    task = own.task_for(recipe)
    place = find(recipe.model.init) if recipe.model.init else None
    start = student_of(read_folder(place), recipe.distill) if place else None
    teacher = read_teacher(recipe.distill)
    tokenizer = start.tokenizer if start else teacher.tokenizer if teacher else None
    facts: dict[str, Any] = {}
    if own.batches is None:
        task = task.resolved(say)
        keep_reading(folder, task)
        if task.reads_text and tokenizer is None:
            tokenizer = _tokenizer(recipe, task, folder, say)
        if tokenizer is not None and recipe.model.init:
            tell_coverage(task, tokenizer, recipe.model.init, say)
        facts = task.survey(task.examples(task.data.train), say)
        facts |= task.inherited(start) if start else {}
        if teacher is not None:
            if task.reads_text:
                check_vocabulary(recipe.distill, teacher, tokenizer)
            facts = task.taught_facts(facts, teacher, recipe.distill.teacher)
    torch.manual_seed(recipe.train.seed)
    config = model_config(recipe, task, tokenizer, facts, start, teacher)
    defaults = start.generation if start else None
    context = Context(tokenizer, config, facts, say, options_of(recipe), generation=defaults)
    model = own.build(config) if own.model is not None else task.build(config)
    if own.model is None:
        task.check_model(model, context)
    if place is not None and start is not None:
        task.load_start(model, start, place, context)
    dtype = _stored_dtype(recipe, start)
    taught = None if teacher is None else teaching(recipe.distill, teacher, task, model, context)
    if own.batches is not None:
        return Prepared(task, context, model, folder, None, None, taught, dtype)
    begun = not recipe.data.cache and bool(steps(folder / "checkpoints"))
    found = stores(task, context, Path(recipe.data.cache) if recipe.data.cache else folder / "data", begun=begun)
    if context.skipped.count:
        say(str(context.skipped))
    return Prepared(task, context, model, folder, *found, taught, dtype)


def reading(recipe: Recipe) -> DataConfig:
    """Return how the files of a recipe are read, so that other files are read in the same way."""
    task = read_task(recipe.task, recipe.objective, recipe.data).resolved(lambda _: None)
    return override(task.data, {"train": (), "valid": (), "test": ()})


def model_config(
    recipe: Recipe,
    task: Task,
    tokenizer: TextTokenizer | None,
    facts: dict[str, Any],
    start: Folder | None,
    teacher: Folder | None = None,
) -> Any:
    """Adapt a preset, or the config of `model.init`, to task and teacher: heads, number of labels, vocabulary."""
    base = start.config if start else catalogue.preset(recipe.model.preset)
    wanted: dict[str, Any] = {"heads": list(task.model_heads())} if task.model_heads() else {}
    if labels := facts.get("labels"):
        wanted["num_labels"] = len(labels)
    if start is None and tokenizer is not None:
        wanted["vocab_size"] = tokenizer.vocab_size if teacher is None else teacher.config.vocab_size
        roles = {"start_id": "pad", "end_id": "end"}
        wanted |= {key: tokenizer.specials[role] for key, role in roles.items() if role in tokenizer.specials}
    names = {field.name for field in fields(base)}
    found = override(base, {key: value for key, value in wanted.items() if key in names} | recipe.model.set)
    found = task.adapted(found, base)
    return found if teacher is None else task.student(found)


def _stored_dtype(recipe: Recipe, start: Folder | None) -> str:
    """Return the dtype of the weights on disk; no training ends in int8."""
    found = start.stored_dtype if start and recipe.model.dtype == INIT else recipe.model.dtype
    return found if found in DTYPES else "float32"


def _tokenizer(recipe: Recipe, task: Task, folder: Path, say: Say) -> TextTokenizer:
    """Train a tokenizer on the training texts, or return the one that the run has already trained."""
    if recipe.model.init:
        raise UsageError(f"model.init: {recipe.model.init} has no tokenizer, but this task reads text")
    if (found := find_tokenizer(folder)) is not None:
        return found
    say(f"training a {recipe.tokenizer.kind} tokenizer")
    config = replace(recipe.tokenizer, specials=task.specials)
    texts = (text for example in task.examples(task.data.train) for text in task.texts(example))
    with Bar("reading texts") as bar:
        tokenizer = train_tokenizer(bar.each(texts), config)
    keep_tokenizer(folder, tokenizer)
    return tokenizer
