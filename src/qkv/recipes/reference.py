"""Generate docs/recipes.md from the config classes: `python -m qkv.recipes.reference > docs/recipes.md`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import typing
from collections.abc import Iterator
from typing import Any

from qkv.recipes.schema import Recipe, read_recipe
from qkv.recipes.shelf import listed, shipped
from qkv.tasks.table import TASKS, find_task

HEAD = """# Recipes

A recipe is one TOML file that describes a complete training run. Start a shipped recipe with `qkv train NAME` and your
own with `qkv train FILE.toml`. `qkv recipes` lists the shipped ones, and `qkv recipes NAME` shows one with all its
values. With a data file instead (`qkv train reviews.csv`), the recipe for it is recognised. You can change any value
with `--set`, for example `--set train.steps=500` or `--set data.train=[a.en,a.de]`. If you misspell a key, the error
message suggests the nearest one. Fine-tuning recipes (`classify`, `pairs`, `regress`, `tag`, `answer`,
`sentence-embeddings`) start from the built-in encoder `english` if you set neither `model.init` nor `model.preset`.

This page is generated from the code (`python -m qkv.recipes.reference > docs/recipes.md`), and a test keeps it up to
date.

The folder of a run is a model folder that you can load, with these files next to the model:

- the model itself. With `train.keep_best` or `train.patience`, the weights that validated best; otherwise the last
  weights, or their average if you set `train.ema` or `train.average_last`. The closing line of a run says which;
- `best/`: a model folder with the weights that validated best, by the task's metric (accuracy, F1, BLEU, …) if it has
  one, otherwise by the loss;
- `checkpoints/`: the state that `--resume` continues from, with bit-identical results. A finished run removes it,
  unless you set `train.keep_checkpoints`;
- `recipe.toml`: the recipe as it ran, with absolute paths. When you resume, you cannot change anything that affects the
  weights. You can change `out`, `data.cache`, `[log]`, and `workers`, `threads`, `keep`, `keep_checkpoints`,
  `log_every` and `carbon_intensity` of `[train]`;
- `metrics.jsonl` and `energy.json`: the metrics and the energy used;
- `outcome.json`: how the run ended (done, early, a signal, or the error), after how many steps;
- `search.json` and `search-*/` (with `--search`): the result of each learning rate, and the runs that did not win;
- `tokenizer/` and `data/`: the trained tokenizer and the tokenised examples;
- `reading.json`: the columns that the run read, so that `evaluate` and the other commands read yours the same way;
- `teacher/` (with `distill.texts` or `distill.answers`): what the run learns, with the teacher's answers;
- `rows/` (from Python): the training rows that you passed instead of a file;
- `inputs.json`: digests of the training and validation files and of `model.init`, unless that is a model on the Hub,
  which has its commit in `recipe.toml`. A run resumes only with the files it started with; the tokenizer and, if it
  ends with the best weights, `best/` must be unchanged too.

To continue a stopped run, name its folder: `qkv train runs/x --resume` works in any directory. You can also repeat the
command that started it, with `--resume`. `qkv runs` lists the runs in a folder with their state, validation values,
scores, time and energy. `qkv runs A B --compare` shows the settings that differ and the curves side by side; with
`--data FILE`, it also scores the runs on the same data, with a paired bootstrap test of the difference.

Only one run at a time can train in a folder; a second one stops with an error. Ctrl-C or SIGTERM saves the run and ends
it with exit code 1, so that you can resume it; a second Ctrl-C stops it at once. Exit codes of `qkv`: 0 done, 1 failed
or stopped and resumable, 2 wrong usage, 130 stopped with Ctrl-C, 143 stopped by SIGTERM.

## Shipped recipes

| name | what it does |
| --- | --- |
"""

AUTO = """
## Values that are `auto`

Some values of the shipped recipes are `"auto"`: they follow from your data and the model. Before a run starts, a rule
sets them; the run prints them and writes them into its `recipe.toml`. You can set each of them yourself, for example
`--set optim.lr=1e-4`, and in a recipe of your own you can use `"auto"` for any key that the task has a rule for.

| key | rule | recipes |
| --- | --- | --- |
"""

OBJECTIVES = """
## `[objective]`, by task

| task | key | default | meaning |
| --- | --- | --- | --- |
"""

MIXTURE = """
The task `mixture` trains one model on several tasks at once. Each part is named after its task. Every step takes one
batch from each part, and all of them share one token budget:

```toml
task = "mixture"

[model]
preset = "bert-small"

[data]
train = ["notes.txt", "topics.tsv"]

[data.mix.masked]
files = ["*.txt"]
unit = "blank"

[data.mix.classify]
files = ["*.tsv"]

[objective.mix.masked]
weight = 1.0

[objective.mix.classify]
weight = 0.5
smoothing = 0.1
```
"""

TEXTS = """
The task `text-to-text` writes every task as text: the model reads a prefix and the text, and answers in words. With
tables in `data.mix` and `objective.mix`, one model learns several tasks. A part can have any name, and needs a prefix
of its own. Its `weight` (1 by default) is its share of the tokens of each step and of the loss. A good start is
min(examples, a limit) times the mean tokens of an example (Raffel et al. 2020, section 3.5.2), so that a small task is
not read too often; `benchmarks/text-to-text.toml` has such weights for four public tasks:

```toml
task = "text-to-text"

[model]
init = "path/to/t5"

[data]
train = ["a.en", "a.de", "sst2.tsv", "stsb.tsv", "squad.json"]

[data.mix]
en-de.files = ["a.en", "a.de"]
sst2.files = "sst2.tsv"
stsb.files = "stsb.tsv"
squad.files = "squad.json"

[objective.mix.en-de]
kind = "translate"
prefix = "translate English to German: "
weight = 2.0

[objective.mix.sst2]
kind = "classify"
prefix = "sst2 sentence: "
labels = { 0 = "negative", 1 = "positive" }

[objective.mix.stsb]
kind = "regress"
prefix = "stsb sentence1: "

[objective.mix.squad]
kind = "answer"
prefix = "question: "
```

Each part is scored with the metrics of the task of its kind, and `average` is the mean of the first metric of every
part. An answer that is no label, or no number, counts as wrong; `invalid` is the share of such answers. Validation and
`data.test` score each part on its own files; `qkv evaluate FOLDER FILE --task sst2` scores one. The folder stores the
prefixes, and `qkv translate FOLDER` uses that of the part that translates.
"""


def reference() -> str:
    """Return the page."""
    lines = [f"| `{one.name}` | {one.summary} |" for one in listed()]
    page = HEAD + "\n".join(lines) + "\n\n" + "\n".join(_section(Recipe, "")) + "\n"
    return page + AUTO + "\n".join(_rules()) + "\n" + OBJECTIVES + "\n".join(_settings()) + "\n" + MIXTURE + TEXTS


def _rules() -> list[str]:
    """List the rules of the shipped recipes, each with the recipes that use it."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in shipped():
        recipe = read_recipe(name)
        for key in recipe.auto or ():
            rule = inspect.cleandoc(find_task(recipe.task).rules[key].__doc__ or "").replace("\n", " ")
            found.setdefault((key, rule), []).append(f"`{name}`")
    return [f"| `{key}` | {rule} | {', '.join(names)} |" for (key, rule), names in sorted(found.items())]


def _settings() -> list[str]:
    """List the keys of the `objective` table of each task."""
    return [
        f"| {task} | `{key}` | {default} | {meaning} |"
        for task, kind in TASKS.items()
        if dataclasses.is_dataclass(kind.Settings)
        for key, default, meaning in _keys(kind.Settings)
    ]


def _keys(cls: type[Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield key, default and meaning of each field, and of the fields of nested configs."""
    hints, told = typing.get_type_hints(cls), _attributes(cls)
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from _keys(hints[field.name], f"{path}{field.name}.")
        else:
            yield f"{path}{field.name}", _default(field), told[field.name]


def _section(cls: type[Any], path: str) -> list[str]:
    """List the keys of a config class, then those of the configs nested in it."""
    hints, told = typing.get_type_hints(cls), _attributes(cls)
    plain, nested = [], []
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[field.name]):
            nested += ["", *_section(hints[field.name], f"{path}{field.name}.")]
        else:
            plain.append(f"| `{path}{field.name}` | {_default(field)} | {told[field.name]} |")
    title = f"`[{path.rstrip('.')}]`" if path else "Top level"
    return [f"## {title}", "", "| key | default | meaning |", "| --- | --- | --- |", *plain, *nested]


def _attributes(cls: type[Any]) -> dict[str, str]:
    """Read the Attributes sections of the docstrings of a class and its base classes."""
    texts = [(inspect.cleandoc(part.__doc__ or "")).partition("Attributes:\n")[2] for part in reversed(cls.__mro__)]
    found = [re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE) for text in texts]
    return {name: re.sub(r"\s+", " ", meaning) for some in found for name, meaning in some}


def _default(field: dataclasses.Field[Any]) -> str:
    made: Any = field.default_factory
    value = field.default if made is dataclasses.MISSING else made()
    return f"`{json.dumps(value)}`"


if __name__ == "__main__":
    sys.stdout.write(reference())
