"""From a recipe to a trained model folder.

    files ─► tokenizer ─► stores ─► model ─► loop ─► model folder

Everything that can be wrong is found before anything heavy starts. A run's folder holds all of it: recipe.toml as
resolved, the tokenised data, metrics.jsonl, checkpoints/, best/, energy.json, and the model folder itself.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qkv.checkpoints.folder import Folder, folder_files, read_folder, write_folder
from qkv.common import disk
from qkv.common.config import override, to_toml
from qkv.common.errors import UsageError, unknown
from qkv.common.progress import Bar
from qkv.data.bad_rows import BadRows
from qkv.data.files import digest_of, expand, stored_file
from qkv.data.loaders import Loader
from qkv.data.order import Sampler
from qkv.data.split import held_out
from qkv.data.store import Store
from qkv.data.store_writer import NoRows
from qkv.models import catalogue
from qkv.predict.device import find_device
from qkv.recipes.schema import Recipe, read_recipe
from qkv.tokenizers.kinds import KINDS
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import train_tokenizer
from qkv.training.loop import Outcome, train
from qkv.training.optim import OPTIMIZERS
from qkv.training.precision import PRECISIONS
from qkv.training.run import COMPILES, Job
from qkv.training.schedule import SCHEDULES
from qkv.training.tasks.base import Context, Row, Task
from qkv.training.tasks.table import TASKS
from qkv.training.trackers import LogConfig, check_tracker

Say = Callable[[str], None]

LEAST = {  # numbers of a recipe that cannot be smaller
    "optim.lr": 0.0,
    "optim.clip": 0.0,
    "optim.warmup": 0.0,
    "train.steps": 0,
    "train.epochs": 0.0,
    "train.tokens": 1,
    "train.accumulate": 1,
    "train.workers": 0,
    "train.ema": 0.0,
    "train.average_last": 0,
    "train.log_every": 1,
    "train.keep": 1,
    "data.max_length": 1,
    "data.held_out": 0.0,
}
# What may change when a run goes on; a recipe is compared with these values in it.
FREE: dict[str, Any] = {
    "out": "",
    "log": LogConfig(),
    "data.cache": "",
    "train.workers": 1,
    "train.keep": 1,
    "train.log_every": 1,
    "train.carbon_intensity": 0.0,
}


@dataclass(frozen=True)
class Prepared:
    """A recipe with everything made that training needs."""

    task: Task
    context: Context
    model: nn.Module
    folder: Path
    train: Store
    valid: Store


def run_recipe(recipe: Recipe, *, resume: bool = False, device: str | None = None, say: Say) -> Outcome:
    """Train what a recipe says."""
    check(recipe)
    where = find_device(device)
    folder = Path(recipe.out)
    new = _claim(folder, recipe, resume)
    try:
        prepared = prepare(recipe, folder, say)
    except BaseException:
        if new:  # a run that never began leaves nothing, so that the next try can have its place
            disk.remove(folder)
        raise
    model = prepared.model.to(where).train()
    job = job_of(recipe, prepared, model, say)
    say(f"{_count(model):,} weights, {len(prepared.train):,} examples, {job.total:,} steps, on {where.type}")
    outcome = train(job, recipe.train, recipe.optim, recipe.log, resume=resume)
    disk.replace_file(folder / "energy.json", json.dumps(outcome.energy, indent=2).encode() + b"\n")
    return outcome


def check(recipe: Recipe) -> None:
    """Stop a recipe that cannot work, before anything heavy starts."""
    if recipe.task not in TASKS:
        raise unknown("task", recipe.task, TASKS)
    if bool(recipe.model.preset) == bool(recipe.model.init):
        raise UsageError("a recipe names either model.preset or model.init, one of the two")
    if recipe.model.preset and recipe.model.preset not in catalogue.PRESETS:
        raise unknown("preset", recipe.model.preset, catalogue.PRESETS)
    if recipe.model.init and not Path(recipe.model.init).is_dir():
        raise UsageError(f"model.init: {recipe.model.init} is not a folder")
    if not recipe.data.train:
        raise UsageError("data.train names no file: --set data.train=FILE")
    for paths in (recipe.data.train, recipe.data.valid, recipe.data.test):
        for path in paths:
            if not path.startswith(("phrasebook:", "hf:")):
                _must_exist(path)
    if recipe.data.separator and recipe.task not in ("classify", "mixture"):
        raise UsageError(f"data.separator is for classify, alone or in a mixture, not for {recipe.task}")
    if recipe.data.dropout and recipe.task not in ("translate", "mixture"):
        raise UsageError(f"data.dropout is for translate, alone or in a mixture, not for {recipe.task}")
    for key, name, allowed in (
        ("optim.name", recipe.optim.name, OPTIMIZERS),
        ("optim.schedule", recipe.optim.schedule, SCHEDULES),
        ("train.precision", recipe.train.precision, PRECISIONS),
        ("train.compile", recipe.train.compile, COMPILES),
        ("tokenizer.kind", recipe.tokenizer.kind, KINDS),
    ):
        if name not in allowed:
            raise unknown(key, name, allowed)
    for key, least in LEAST.items():
        table, _, name = key.partition(".")
        if (value := getattr(getattr(recipe, table), name)) < least:
            raise UsageError(f"{key} must be at least {least:g}, got {value:g}")
    TASKS[recipe.task].objective(_settings(recipe))
    check_tracker(recipe.log)


def _must_exist(path: str) -> None:
    for found in expand([path]):
        if not stored_file(found).exists():
            raise UsageError(f"there is no file {found}")


def prepare(recipe: Recipe, folder: Path, say: Say) -> Prepared:
    """Make tokenizer, model and data; what an earlier try has made is taken as it is."""
    task = TASKS[recipe.task]
    start = read_folder(recipe.model.init) if recipe.model.init else None
    tokenizer = start.tokenizer if start else _tokenizer(recipe, task, folder, say) if task.reads_text else None
    if tokenizer is None and task.reads_text:
        raise UsageError(f"model.init: {recipe.model.init} has no tokenizer, and {recipe.task} reads text")
    labels = task.labels(recipe.data.train, recipe.data)
    torch.manual_seed(recipe.train.seed)
    config, model = _model(recipe, task, tokenizer, labels, start)
    context = Context(recipe.data, tokenizer, labels, config, _settings(recipe), say)
    stores = _stores(recipe, task, context, folder)
    if context.skipped.count:
        say(str(context.skipped))
    return Prepared(task, context, model, folder, *stores)


def _claim(folder: Path, recipe: Recipe, resume: bool) -> bool:
    """Take a run's folder: a new one (true), or one to resume whose recipe gives the same numbers."""
    file = folder / "recipe.toml"
    new = not file.is_file()
    if not new and not resume:
        raise UsageError(f"{folder} holds a run already: go on with --resume, or choose another place with --set out=…")
    if folder.exists() and any(folder.iterdir()) and new:
        raise UsageError(f"{folder} is not empty and holds no run: choose another place with --set out=…")
    folder.mkdir(parents=True, exist_ok=True)
    if not new and (old := _deciding(read_recipe(str(file)))) != (now := _deciding(recipe)):
        changed = _first_difference(old, now)
        raise UsageError(f"{file} is another recipe ({changed}): resume with the recipe the run began with")
    disk.replace_file(file, to_toml(recipe).encode())
    return new


def _deciding(recipe: Recipe) -> str:
    """Write down what decides a run's numbers: all but where things lie, who prepares them and what is shown."""
    return to_toml(override(recipe, FREE))


def _first_difference(old: str, new: str) -> str:
    for a, b in zip(old.splitlines(), new.splitlines(), strict=False):
        if a != b:
            return f"it has {a!r}, now {b!r}"
    return "one is longer"


def _tokenizer(recipe: Recipe, task: Task, folder: Path, say: Say) -> TextTokenizer:
    """Train a tokenizer on the training texts, once."""
    kept = folder / "tokenizer"
    if (found := TextTokenizer.find(kept)) is not None:
        return found
    say(f"training a {recipe.tokenizer.kind} tokenizer")
    config = replace(recipe.tokenizer, specials=task.specials)
    with Bar("reading texts") as bar:
        tokenizer = train_tokenizer(bar.each(task.texts(recipe.data.train, recipe.data)), config)
    disk.replace_folder(kept, tokenizer.files(), manifest=False)
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
    model = task.build(config, _settings(recipe))
    if start is not None:
        mine, theirs = model.state_dict(), start.model.state_dict()
        shared = {name for name in mine if name in theirs and theirs[name].shape == mine[name].shape}
        model.load_state_dict({name: theirs[name] for name in shared}, strict=False)
    return config, model


def _stores(recipe: Recipe, task: Task, context: Context, folder: Path) -> tuple[Store, Store]:
    """Tokenise training and validation examples, once."""
    data = recipe.data
    root = Path(data.cache) if data.cache else folder / "data"
    print_of = context.tokenizer.fingerprint if context.tokenizer else ""
    relevant = [
        recipe.task,
        asdict(data),
        dict(context.settings),
        context.labels,
        print_of,
        context.config.max_length if hasattr(context.config, "max_length") else 0,
    ]

    def store(name: str, paths: tuple[str, ...], keep: Callable[[Row], bool], told: Context = context) -> Store:
        identity = [digest_of(path) if stored_file(path).exists() else path for path in paths]
        key = hashlib.sha256(json.dumps([name, relevant, identity], default=str).encode()).hexdigest()
        with Bar(f"tokenising {name}") as bar:
            rows = bar.each(task.rows(paths, told))
            return Store.cached(root / name, key, lambda: (row for row in rows if keep(row)))

    if data.valid:
        return store("train", data.train, lambda _: True), store("valid", data.valid, lambda _: True)

    share = data.held_out

    def out(row: Row) -> bool:
        # texts kept beside their ids (for dropout of merges) say nothing that the ids do not
        ids = {k: [int(x) for x in v] for k, v in row.items() if hasattr(v, "__len__") and not k.endswith("_text")}
        return held_out(json.dumps(ids), share, 0)

    context.say(f"no data.valid: {share:.0%} of the training examples are held out for it")
    kept = store("train", data.train, lambda row: not out(row))
    try:
        again = replace(context, skipped=BadRows(), say=lambda _: None)  # what was left out was said the first time
        return kept, store("valid", data.train, out, again)
    except NoRows:
        raise UsageError(
            f"of {len(kept)} examples none was held out for validation: raise data.held_out (now {share:g}) "
            "or give data.valid"
        ) from None


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
            several = bool(recipe.data.separator)
            found = Folder(numbers, part, context.tokenizer, context.labels, several=several)
            if where / name != prepared.folder:
                write_folder(found, where / name)
                continue
            for file, data in folder_files(found).items():  # the run's own folder keeps its other files
                disk.replace_file(where / file, data)

    total = config.steps or max(1, round(config.epochs * _batches(training.sampler) / config.accumulate))
    return Job(model, task.objective(context.settings), training.iterate, total, prepared.folder, valid, finish, say)


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


def _settings(recipe: Recipe) -> dict[str, Any]:
    several = {"several": True} if recipe.data.separator else {}
    return {**recipe.objective, **several}


def _count(model: nn.Module) -> int:
    return sum(math.prod(parameter.shape) for parameter in model.parameters())
