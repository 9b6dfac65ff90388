"""docs/recipes.md, written from the config classes: `python -m qkv.recipes.reference > docs/recipes.md`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import typing
from typing import Any

from qkv.objectives.classify import Classify
from qkv.objectives.language import MaskedToken
from qkv.objectives.replaced import ReplacedToken
from qkv.objectives.span import AnswerSpan
from qkv.objectives.tag import Tag
from qkv.objectives.translate import Translate
from qkv.recipes.schema import SHIPPED, Recipe, shipped
from qkv.tasks.language import Hiding
from qkv.tasks.repair import Holes
from qkv.tasks.replaced import Filling
from qkv.tasks.words import WordSettings

HEAD = """# Recipes

A recipe is one TOML file and one full run: `qkv train NAME` for a shipped one, `qkv train FILE.toml` for your own. Any
value can be changed with `--set`, for example `--set train.steps=500` or `--set data.train=[a.en,a.de]`. A key that
does not exist is an error that names the nearest one. This page is written from the code
(`python -m qkv.recipes.reference > docs/recipes.md`), and a test keeps it so.

A run's folder is a model folder, with more beside the model:

- the model itself: the last weights, or their average (`train.ema`, `train.average_last`); where `train.patience` may
  stop the run early, the weights of the best validation;
- `best/`: a model folder with the weights of the best validation;
- `checkpoints/`: what `--resume` goes on from, bit for bit;
- `recipe.toml`: the recipe as it ran. On resuming nothing that decides the numbers may differ; `out`, `data.cache`,
  `[log]` and, of `[train]`, workers, keep, log_every and carbon_intensity may;
- `metrics.jsonl` and `energy.json`: what was measured;
- `search.json` and `search-*/`, with `--search`: what each learning rate gave, and the runs that were not the best;
- `tokenizer/` and `data/`: the tokenizer that was trained and the tokenised examples;
- `inputs.json`: digests of the training and validation files and of `model.init`. A run resumes only with the files it
  began with; the tokenizer and, with `train.patience`, `best/` must be unchanged too.

One run at a time trains in a folder: a second one is refused. Ctrl-C or SIGTERM saves the run and ends it with exit
code 1, so that it can be resumed; a second Ctrl-C stops it at once. Exit codes of `qkv`: 0 done, 1 failed or stopped
and resumable, 2 wrong usage, 130 stopped with Ctrl-C, 143 stopped by SIGTERM.

## Shipped recipes

| name | what it does |
| --- | --- |
"""

OBJECTIVES = """
## `[objective]`, by task

| task | key | default | meaning |
| --- | --- | --- | --- |
"""

# The configs that the tasks with most to say read their tables into.
SETTINGS: dict[str, tuple[type[Any], ...]] = {
    "masked": (Hiding, MaskedToken),
    "replaced": (Filling, ReplacedToken),
    "denoise": (Holes,),
    "translate": (Translate,),
    "classify": (Classify,),
    "tag": (Tag,),
    "answer": (AnswerSpan,),
    "words": (WordSettings,),
}

MIXTURE = """
The tasks `spans` and `denoise` take the keys of `translate` too, and are not smoothed unless asked.

The task `mixture` learns several tasks at once. Each part is named by its task and takes a batch of its own at every
step, all within one token budget:

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
    """Describe what each task's table `objective` takes."""
    return [
        f"| {task} | `{field.name}` | {_default(field)} | {_attributes(cls)[field.name]} |"
        for task, classes in SETTINGS.items()
        for cls in classes
        for field in dataclasses.fields(cls)
    ]


def _first_comment(name: str) -> str:
    first = (SHIPPED / f"{name}.toml").read_text("utf-8").splitlines()[0]
    return first.removeprefix("#").strip()


def _section(cls: type[Any], path: str) -> list[str]:
    """Describe the keys of a config class, then its nested ones."""
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
    """Read the Attributes of the docstrings of a class and of those it stands on."""
    texts = [(inspect.cleandoc(part.__doc__ or "")).partition("Attributes:\n")[2] for part in reversed(cls.__mro__)]
    found = [re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE) for text in texts]
    return {name: re.sub(r"\s+", " ", meaning) for some in found for name, meaning in some}


def _default(field: dataclasses.Field[Any]) -> str:
    made: Any = field.default_factory
    value = field.default if made is dataclasses.MISSING else made()
    return f"`{json.dumps(value)}`"


if __name__ == "__main__":
    sys.stdout.write(reference())
