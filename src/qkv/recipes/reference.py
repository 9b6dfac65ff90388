"""Generate docs/recipes.md from the config classes: `python -m qkv.recipes.reference > docs/recipes.md`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import typing
from typing import Any

from qkv.recipes.schema import SHIPPED, Recipe, shipped
from qkv.tasks.table import TASKS

HEAD = """# Recipes

A recipe is one TOML file that describes a complete training run. Start a shipped recipe with `qkv train NAME` and your
own with `qkv train FILE.toml`. You can change any value with `--set`, for example `--set train.steps=500` or
`--set data.train=[a.en,a.de]`. If you misspell a key, the error message suggests the nearest one.

This page is generated from the code (`python -m qkv.recipes.reference > docs/recipes.md`), and a test keeps it up to
date.

The folder of a run is a model folder that you can load, with these files next to the model:

- the model itself: the last weights, or their average if you set `train.ema` or `train.average_last`. With
  `train.patience`, the weights with the lowest validation loss;
- `best/`: a model folder with the weights that had the lowest validation loss;
- `checkpoints/`: the state that `--resume` continues from, with bit-identical results;
- `recipe.toml`: the recipe as it ran. When you resume, you cannot change anything that affects the weights. You can
  change `out`, `data.cache`, `[log]`, and `workers`, `keep`, `log_every` and `carbon_intensity` of `[train]`;
- `metrics.jsonl` and `energy.json`: the metrics and the energy used;
- `search.json` and `search-*/` (with `--search`): the result of each learning rate, and the runs that did not win;
- `tokenizer/` and `data/`: the trained tokenizer and the tokenised examples;
- `reading.json`: the columns that the run read, so that `evaluate` and the other commands read yours the same way;
- `rows/` (from Python): the training rows that you passed instead of a file;
- `inputs.json`: digests of the training and validation files and of `model.init`. A run resumes only with the files it
  started with; the tokenizer and, with `train.patience`, `best/` must be unchanged too.

Only one run at a time can train in a folder; a second one stops with an error. Ctrl-C or SIGTERM saves the run and ends
it with exit code 1, so that you can resume it; a second Ctrl-C stops it at once. Exit codes of `qkv`: 0 done, 1 failed
or stopped and resumable, 2 wrong usage, 130 stopped with Ctrl-C, 143 stopped by SIGTERM.

## Shipped recipes

| name | what it does |
| --- | --- |
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


def reference() -> str:
    """Return the page."""
    lines = [f"| `{name}` | {_first_comment(name)} |" for name in shipped()]
    page = HEAD + "\n".join(lines) + "\n\n" + "\n".join(_section(Recipe, "")) + "\n"
    return page + OBJECTIVES + "\n".join(_settings()) + "\n" + MIXTURE


def _settings() -> list[str]:
    """List the keys of the `objective` table of each task."""
    return [
        f"| {task} | `{field.name}` | {_default(field)} | {_attributes(cls)[field.name]} |"
        for task, kind in TASKS.items()
        if dataclasses.is_dataclass(cls := kind.Settings)
        for field in dataclasses.fields(cls)
    ]


def _first_comment(name: str) -> str:
    first = (SHIPPED / f"{name}.toml").read_text("utf-8").splitlines()[0]
    return first.removeprefix("#").strip()


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
