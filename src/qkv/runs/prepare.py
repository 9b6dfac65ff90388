"""What training needs, made from a recipe: tokenizer, model, and examples as numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qkv.checkpoints.folder import Folder, read_folder
from qkv.common.config import override
from qkv.common.errors import UsageError
from qkv.common.progress import Bar
from qkv.data.columns import as_name
from qkv.data.config import DataConfig
from qkv.data.files import expand
from qkv.data.labelled import find_columns
from qkv.data.store import Store
from qkv.models import catalogue
from qkv.recipes.schema import Recipe, Say
from qkv.runs.run_folder import find_tokenizer, keep_tokenizer
from qkv.runs.stores import stores
from qkv.tasks.base import Context, Task
from qkv.tasks.classify import columns
from qkv.tasks.table import TASKS
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import train_tokenizer


@dataclass(frozen=True)
class Prepared:
    """A recipe with everything made that training needs; and of a reader, whether it may give no answer."""

    task: Task
    context: Context
    model: nn.Module
    folder: Path
    train: Store
    valid: Store
    no_answer: bool | None


def prepare(recipe: Recipe, folder: Path, say: Say) -> Prepared:
    """Make tokenizer, model and data; what an earlier try has made is taken as it is."""
    task = TASKS[recipe.task]
    recipe = replace(recipe, data=with_columns(recipe, say))
    start = read_folder(recipe.model.init) if recipe.model.init else None
    tokenizer = start.tokenizer if start else _tokenizer(recipe, task, folder, say) if task.reads_text else None
    if tokenizer is None and task.reads_text:
        raise UsageError(f"model.init: {recipe.model.init} has no tokenizer, and {recipe.task} reads text")
    labels = task.labels(recipe.data.train, recipe.data)
    torch.manual_seed(recipe.train.seed)
    config, model = _model(recipe, task, tokenizer, labels, start)
    context = Context(recipe.data, tokenizer, labels, config, recipe.settings, say)
    found = stores(recipe, context, folder)
    if context.skipped.count:
        say(str(context.skipped))
    return Prepared(task, context, model, folder, *found, task.no_answer(recipe.data.train, recipe.data))


def with_columns(recipe: Recipe, say: Say) -> DataConfig:
    """Find the columns that a recipe does not name, and say which they are.

    Those told by what stands in them are taken from the first training file and hold for every other file.
    """
    data = recipe.data
    if recipe.task not in ("classify", "regress") or (data.text and data.label):
        return data
    path = expand(data.train)[0]
    found = find_columns(path, **columns(data), number=recipe.task == "regress")
    hint = ", by what stands in them; data.text and data.label say otherwise" if found.guessed else ""
    say(f"{path}: {found}{hint}")
    if not found.guessed:
        return data
    text, second, label = (as_name(column) for column in (found.text, found.second, found.label))
    return replace(data, text=text, second=second, label=label)


def reading(recipe: Recipe) -> DataConfig:
    """Return how the files of a recipe were read, for others that are read alike."""
    return override(with_columns(recipe, lambda _: None), {"train": (), "valid": (), "test": ()})


def _tokenizer(recipe: Recipe, task: Task, folder: Path, say: Say) -> TextTokenizer:
    """Train a tokenizer on the training texts, once."""
    if (found := find_tokenizer(folder)) is not None:
        return found
    say(f"training a {recipe.tokenizer.kind} tokenizer")
    config = replace(recipe.tokenizer, specials=task.specials)
    with Bar("reading texts") as bar:
        tokenizer = train_tokenizer(bar.each(task.texts(recipe.data.train, recipe.data)), config)
    keep_tokenizer(folder, tokenizer)
    return tokenizer


def _model(
    recipe: Recipe, task: Task, tokenizer: TextTokenizer | None, labels: tuple[str, ...], start: Folder | None
) -> tuple[Any, nn.Module]:
    """Build the model, from first weights or from a folder; heads the folder has not begin anew."""
    base = start.config if start else catalogue.preset(recipe.model.preset)
    wanted: dict[str, Any] = {"heads": list(task.heads)} if task.heads else {}
    if labels:
        wanted["num_labels"] = len(labels)
    if start is None and tokenizer is not None:
        wanted["vocab_size"] = tokenizer.vocab_size
        roles = {"start_id": "pad", "end_id": "end"}
        wanted |= {key: tokenizer.specials[role] for key, role in roles.items() if role in tokenizer.specials}
    names = {field.name for field in fields(base)}
    config = override(base, {key: value for key, value in wanted.items() if key in names} | recipe.model.set)
    model = task.build(config, recipe.settings)
    if start is not None:
        mine, theirs = model.state_dict(), start.model.state_dict()
        shared = {name for name in mine if name in theirs and theirs[name].shape == mine[name].shape}
        model.load_state_dict({name: theirs[name] for name in shared}, strict=False)
    return config, model
