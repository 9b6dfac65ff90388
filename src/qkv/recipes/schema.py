"""The keys of a recipe, and how to read one: a shipped name or a file, then `--set key=value`."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qkv.common.config import from_dict, override
from qkv.common.errors import QkvError, UsageError, reason_of, show, unknown
from qkv.data.config import DataConfig
from qkv.objectives.distill import DistillConfig
from qkv.recipes.auto import is_auto, without_auto
from qkv.recipes.renamed import with_new_names
from qkv.recipes.shelf import file_of, shipped
from qkv.tokenizers.training import TokenizerConfig
from qkv.training.config import TrainConfig
from qkv.training.optim import OptimConfig
from qkv.training.trackers import LogConfig

Say = Callable[[str], None]  # prints a line to the user

DEEPEST = 32  # levels of nested tables
INIT = "init"  # as model.dtype: the weights are stored as those of model.init


@dataclass(frozen=True, kw_only=True)
class ModelSection:
    """Which model to train.

    Attributes:
        preset: a preset of the catalogue, with randomly initialised weights.
        init: a model folder to start from instead, or a model on the Hugging Face Hub (hf:OWNER/NAME[@REVISION]); the
            run's recipe.toml then names its commit. Its tokenizer is used too.
        set: values of the model config to change.
        dtype: of the stored weights: float32, float16, bfloat16, or init for that of `init`.
    """

    preset: str = ""
    init: str = ""
    set: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A complete training run.

    Attributes:
        task: translate, classify, regress, tag, answer, embeddings, masked, replaced, causal, complete, spans, denoise,
            prefix-lm, plain-lm, text-to-text, words, image or mixture.
        out: the run's folder. If empty, runs/NAME.
        model: which model to train.
        tokenizer: how to train a tokenizer if the model does not bring one.
        data: where examples come from.
        objective: settings of the loss; which ones depends on the task.
        optim: settings of the optimizer.
        train: settings of the training loop.
        log: experiment trackers.
        distill: learning from a teacher.
        auto: the keys whose value is "auto". A rule of the task sets them before the run starts, so recipe.toml in a
            run's folder has none.
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
    distill: DistillConfig = field(default_factory=DistillConfig)
    auto: tuple[str, ...] | None = None

    def before_override(self, changes: Mapping[str, Any]) -> tuple[Recipe, dict[str, Any]]:
        """Return the recipe with other keys that are "auto", and the changes that are values."""
        auto = set(self.auto or ()) - changes.keys()
        auto -= {f"{key}.{inner}" for key, value in changes.items() if isinstance(value, dict) for inner in value}
        if {"train.epochs", "train.steps"} & changes.keys():  # one replaces the other
            auto -= {"train.epochs", "train.steps"}
        auto |= {key for key, value in changes.items() if is_auto(Recipe, key, value)}
        values = {key: value for key, value in changes.items() if key not in auto}
        model = self.model
        if values.get("model.init") and "model.preset" not in values:  # so do these two
            model = replace(model, preset="")
        elif values.get("model.preset") and "model.init" not in values:
            model = replace(model, init="")
        return replace(self, model=model, auto=tuple(sorted(auto)) or None), values


def read_recipe(name: str, changes: Sequence[str] = (), *, debug: bool = False) -> Recipe:
    """Read a recipe by name or file; `debug` applies its `[debug]` table, then come `changes` ("key=value")."""
    file = file_of(name)
    if not os.path.isfile(file):
        if name.endswith(".toml"):
            raise UsageError(f"there is no recipe file {name}")
        raise unknown("recipe", name, shipped())
    try:
        raw = parse_toml(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    except ValueError as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    except OSError as error:
        raise QkvError(f"{file} cannot be read: {reason_of(error)}") from None
    small = raw.pop("debug", {})
    if not isinstance(small, dict):
        raise UsageError(f"{file}: debug must be a table, got {show(small)}")
    plain, auto = without_auto(Recipe, with_new_names(raw))
    recipe = replace(from_dict(Recipe, plain), auto=auto or None)
    if not recipe.out:
        recipe = override(recipe, {"out": f"runs/{file.stem}"})
    if debug:
        recipe = change(recipe, small)
    return change(recipe, dict(map(parse_change, changes)))


def change(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """Return a recipe with some keys changed, also by old names; "auto" leaves a key to the rule of the task."""
    return override(recipe, with_new_names(dict(changes)))


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; also raise ValueError for values that are valid in TOML but not in a recipe."""
    try:
        raw = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_values(raw, "", 0)
    return raw


def _check_values(value: Any, where: str, depth: int) -> None:
    """Raise ValueError for numbers that are not finite or need more than 64 bits, and for deep nesting."""
    if depth > DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_values(inner, f"{where}.{key}" if where else key, depth + 1 + key.count("."))
    elif isinstance(value, list):
        for inner in value:
            _check_values(inner, where, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} must be a finite number, got {value}")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{where} has a number of more than 64 bits")


def parse_change(text: str) -> tuple[str, Any]:
    """Parse "train.steps=100"; the value is TOML, a bare word, or a bracketed list of bare words."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or key.count(".") > DEEPEST:
        raise UsageError(f"--set takes key=value, got {show(text)}")
    try:
        return key.strip(), parse_toml(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    except ValueError as error:
        raise UsageError(f"--set {show(text)}: {error}") from None
    value = value.strip()
    if value.startswith("[") and value.endswith("]"):
        return key.strip(), [part.strip().strip("\"'") for part in value[1:-1].split(",") if part.strip()]
    return key.strip(), value
