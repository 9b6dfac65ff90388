"""Tokenised examples on disk. Without a validation file, some training examples are held out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import filterfalse
from pathlib import Path
from typing import Any

from qkv.common.errors import UsageError
from qkv.common.progress import Bar
from qkv.data.bad_rows import BadRows
from qkv.data.files import digest_of, stored_file
from qkv.data.store import Store
from qkv.data.store_manifest import read_manifest
from qkv.data.store_writer import NoRows
from qkv.tasks.base import Context, Task
from qkv.tasks.split import held_out_words, splitter, validation_examples

Both = tuple[Any, Any]  # training and validation: a store each, or for a mixture the stores of its parts by name


def stores(task: Task, context: Context, root: Path, *, begun: bool = False) -> Both:
    """Tokenise the training and validation examples of a task, or of each part of a mixture.

    Args:
        task: the task and its data.
        context: the tokenizer, model config and other inputs of the task.
        root: the folder for the stores.
        begun: the run has taken steps, so it keeps its stores, whichever version of qkv wrote them.
    """
    made = {
        name: (_opened(root, name) if begun else None) or _stores(part, context, name, root)
        for name, part in task.parts().items()
    }
    if "" in made:
        return made[""]
    return {name: both[0] for name, both in made.items()}, {name: both[1] for name, both in made.items()}


def count_rows(found: Any) -> int:
    """Count the rows of a store, or of all stores of a mixture."""
    return sum(map(len, found.values())) if isinstance(found, dict) else len(found)


def _opened(root: Path, name: str) -> tuple[Store, Store] | None:
    """Open the stores that the run has already written, if both exist."""
    places = [root / part / name for part in ("train", "valid")]
    return (Store.open(places[0]), Store.open(places[1])) if all(map(read_manifest, places)) else None


def _stores(task: Task, context: Context, name: str, root: Path) -> tuple[Store, Store]:
    data, of = task.data, f" of the part {name}" if name else ""

    def store(part: str, examples: Iterable[Any], paths: tuple[str, ...], told: Context = context) -> Store:
        with Bar(f"tokenising {part}{of}") as bar:
            rows = bar.each(task.rows(examples, told))
            return Store.cached(root / part / name, _key(task, context, part, paths), lambda: rows)

    def read(paths: tuple[str, ...], skipped: BadRows) -> Iterable[Any]:
        return task.examples(paths, skipped)

    try:
        if data.valid:
            kept = store("train", read(data.train, context.skipped), data.train)
            return kept, store("valid", read(data.valid, context.skipped), data.valid)
        held = splitter(task)
        context.say(f"no data.valid: {held_out_words(task)} held out for validation{of}")
        kept = store("train", filterfalse(held, read(data.train, context.skipped)), data.train)
        again = replace(context, skipped=BadRows(), say=lambda _: None)  # skipped rows are already counted
        valid = validation_examples(task, held, again.skipped, context.say)
        return kept, store("valid", valid, data.train, again)
    except NoRows:
        if data.valid:
            raise
        raise UsageError(
            f"none of the {task.held_out_unit}{of} were held out for validation: raise data.held_out "
            f"(now {data.held_out:g}) or give data.valid"
        ) from None


def _key(task: Task, context: Context, part: str, paths: tuple[str, ...]) -> str:
    """Hash everything that the rows of a store depend on."""
    config = context.config
    model = [getattr(config, name, 0) for name in ("max_length", "num_segments", "vocab_size")]
    model += [getattr(config, name) for name in ("image_size", "channels") if hasattr(config, name)]
    tokenizer = context.tokenizer.fingerprint if context.tokenizer else ""
    files = [digest_of(path) if stored_file(path).exists() else path for path in paths]
    named = f"{type(task).__module__}.{type(task).__qualname__}"
    decides = [part, named, asdict(task.data), asdict(task.settings), dict(context.facts), tokenizer, model, files]
    return hashlib.sha256(json.dumps(decides, default=str).encode()).hexdigest()
