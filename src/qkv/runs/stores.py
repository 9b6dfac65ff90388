"""Examples as numbers on disk, made once; what is held out for validation where no file is given for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

from qkv.common.errors import UsageError
from qkv.common.progress import Bar
from qkv.data.bad_rows import BadRows
from qkv.data.config import DataConfig
from qkv.data.examples import Question
from qkv.data.files import digest_of, stored_file
from qkv.data.split import held_out, sentence_key, stratified
from qkv.data.store import Store
from qkv.data.store_writer import NoRows
from qkv.recipes.schema import Recipe
from qkv.tasks.answer import AnswerTask
from qkv.tasks.base import Context, Row, Task
from qkv.tasks.classify import ClassifyTask
from qkv.tasks.table import TASKS

Keep = Callable[[int, Row], bool]  # whether a row, by its number and what it holds, belongs to a part

SEED = 0  # of the split; not the run's, so that runs with other seeds are validated on the same examples


def stores(recipe: Recipe, context: Context, folder: Path) -> tuple[Store, Store]:
    """Tokenise training and validation examples, once."""
    task, data = TASKS[recipe.task], recipe.data
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

    def store(name: str, paths: tuple[str, ...], keep: Keep, told: Context = context) -> Store:
        identity = [digest_of(path) if stored_file(path).exists() else path for path in paths]
        key = hashlib.sha256(json.dumps([name, relevant, identity], default=str).encode()).hexdigest()
        with Bar(f"tokenising {name}") as bar:
            rows = bar.each(task.rows(paths, told))
            return Store.cached(root / name, key, lambda: (row for i, row in enumerate(rows) if keep(i, row)))

    if data.valid:
        return store("train", data.train, lambda *_: True), store("valid", data.valid, lambda *_: True)

    share = data.held_out
    out = _held_out(task, data)
    of = " of each class" if isinstance(task, ClassifyTask) else ""
    context.say(f"no data.valid: {share:.0%} of the training examples{of} are held out for it, the same ones each time")
    kept = store("train", data.train, lambda number, row: not out(number, row))
    try:
        again = replace(context, skipped=BadRows(), say=lambda _: None)  # what was left out was said the first time
        return kept, store("valid", data.train, out, again)
    except NoRows:
        raise UsageError(
            f"of {len(kept)} examples none was held out for validation: raise data.held_out (now {share:g}) "
            "or give data.valid"
        ) from None


def _held_out(task: Task, data: DataConfig) -> Keep:
    """Say which rows are held out, by what they hold: a text that comes twice is never on both sides."""
    if isinstance(task, ClassifyTask):

        @cache
        def chosen() -> set[int]:
            # Of several labels the first is the class: sets of them are seldom alike.
            found = ((f"{e.text}\n{e.second or ''}", e.labels[:1]) for e in task.examples(data.train, data))
            return stratified(((sentence_key(text), "".join(label)) for text, label in found), data.held_out, SEED)

        return lambda number, _: number in chosen()  # an example is a row

    if isinstance(task, AnswerTask):

        @cache
        def asked() -> set[int]:
            return {i for i, one in enumerate(task.examples(data.train, data)) if _is_held_out(one, data)}

        return lambda _, row: row["question"] in asked()  # all windows of a question stay together

    def out(number: int, row: Row) -> bool:
        del number
        # texts kept beside their ids (for dropout of merges) say nothing that the ids do not
        ids = {k: [int(x) for x in v] for k, v in row.items() if hasattr(v, "__len__") and not k.endswith("_text")}
        return held_out(json.dumps(ids), data.held_out, SEED)

    return out


def valid_questions(task: AnswerTask, data: DataConfig) -> list[Question]:
    """Return the questions that a reader is validated on."""
    if data.valid:
        return list(task.examples(data.valid, data))
    return [one for one in task.examples(data.train, data) if _is_held_out(one, data)]


def _is_held_out(one: Question, data: DataConfig) -> bool:
    return held_out(f"{sentence_key(one.question)}\n{one.context}", data.held_out, SEED)
