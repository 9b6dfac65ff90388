"""The keys of a recipe, and how to read one: a shipped name or a file, then `--set key=value`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qkv.common.config import from_dict, override
from qkv.common.errors import UsageError, unknown
from qkv.data.config import DataConfig
from qkv.recipes.renamed import with_new_names
from qkv.tokenizers.training import TokenizerConfig
from qkv.training.config import TrainConfig
from qkv.training.optim import OptimConfig
from qkv.training.trackers import LogConfig

Say = Callable[[str], None]  # prints a line to the user

SHIPPED = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class ModelSection:
    """Which model to train.

    Attributes:
        preset: a preset of the catalogue, with randomly initialised weights.
        init: a model folder to start from instead. Its tokenizer is used too.
        set: values of the model config to change.
    """

    preset: str = ""
    init: str = ""
    set: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A complete training run.

    Attributes:
        task: translate, classify, regress, tag, answer, embeddings, masked, replaced, causal, spans, denoise,
            words, image or mixture.
        out: the run's folder. If empty, runs/NAME.
        model: which model to train.
        tokenizer: how to train a tokenizer if the model does not bring one.
        data: where examples come from.
        objective: settings of the loss; which ones depends on the task.
        optim: settings of the optimizer.
        train: settings of the training loop.
        log: experiment trackers.
    """

    task: str = ""
    out: str = ""
    model: ModelSection = field(default_factory=ModelSection)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    objective: dict[str, Any] = field(default_factory=dict)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    log: LogConfig = field(default_factory=LogConfig)


def shipped() -> list[str]:
    """List the recipes that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def read_recipe(name: str, changes: Sequence[str] = (), *, debug: bool = False) -> Recipe:
    """Read a recipe by name or file; `debug` applies its `[debug]` table, then come `changes` ("key=value")."""
    file = Path(name) if name.endswith(".toml") else SHIPPED / f"{name}.toml"
    if not file.is_file():
        if name.endswith(".toml"):
            raise UsageError(f"there is no recipe file {name}")
        raise unknown("recipe", name, shipped())
    try:
        raw = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    small = raw.pop("debug", {})
    recipe = from_dict(Recipe, with_new_names(raw))
    if not recipe.out:
        recipe = override(recipe, {"out": f"runs/{file.stem}"})
    if debug:
        recipe = override(recipe, small)
    return override(recipe, with_new_names(dict(map(parse_change, changes))))


def parse_change(text: str) -> tuple[str, Any]:
    """Parse "train.steps=100"; the value is TOML, a bare word, or a bracketed list of bare words."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set takes key=value, got {text!r}")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    value = value.strip()
    if value.startswith("[") and value.endswith("]"):
        return key.strip(), [part.strip().strip("\"'") for part in value[1:-1].split(",") if part.strip()]
    return key.strip(), value
