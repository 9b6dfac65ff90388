"""A comparison: one TOML file that names a recipe, its variants and seeds, and what to compare them by.

recipe = "phrasebook"            a shipped recipe or a file
metric = "BLEU"                  empty: the first metric of the task, or the validation loss
seeds = [1, 2]
lengths = [1, 2, 4]              also score inputs 1, 2, 4 times as long as in training

[data]                           keys of [data], for every run
[set]                            other keys of the recipe, for every run
[budget]                         equal parameters, equal training seconds
[variants.NAME]                  set, recipe, trained_as, read: see `Variant`
[finetune]                       a second run from each trained model; that one is scored
[debug]                          keys of this file for `--debug`
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from qkv.common.config import check_range, from_dict, override
from qkv.common.errors import UsageError, reason_of, show, unknown
from qkv.recipes.schema import Recipe, change, parse_change, parse_toml, read_recipe
from qkv.recipes.shelf import SHIPPED, comment_of, flat

SHELF = SHIPPED / "comparisons"
LAYERS = "layers"  # `qkv compare layers` measures; it trains nothing
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One side of a comparison.

    Attributes:
        recipe: another recipe than that of the comparison.
        set: keys of the recipe to change. With another model.preset, the recipe's own model.set does not apply.
        trained_as: another variant whose runs are scored, so that nothing is trained; see `read`.
        read: values of the model config that change when the model is scored, for example the position scheme.
    """

    recipe: str = ""
    set: dict[str, Any] = field(default_factory=dict)
    trained_as: str = ""
    read: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What the variants must have in common.

    Attributes:
        parameters: how far the numbers of parameters may differ, as a share of the smallest. 0 does not check.
        seconds: train each run for this long instead of the recipe's steps. 0 keeps the steps.
    """

    parameters: float = 0.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        check_range("budget.parameters", self.parameters, 0)
        check_range("budget.seconds", self.seconds, 0)


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """A second run from each trained model.

    Attributes:
        recipe: the recipe of that run. Empty: there is none.
        set: keys of that recipe to change.
    """

    recipe: str = ""
    set: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison.

    Attributes:
        recipe: the recipe that the variants change.
        metric: the score to compare. Empty: the first metric of the test files, or of validation.
        seeds: the seeds of each variant's runs.
        lengths: score inputs so many times as long as in training. Empty: only those of the test files.
        data: keys of the recipe's [data], for every run.
        set: other keys of the recipe, for every run.
        budget: what the variants must have in common.
        finetune: a second run from each trained model.
        variants: what is compared, by name.
    """

    recipe: str = ""
    metric: str = ""
    seeds: tuple[int, ...] = (1,)
    lengths: tuple[int, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    set: dict[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    finetune: FineTuning = field(default_factory=FineTuning)
    variants: dict[str, Any] = field(default_factory=dict)

    def sides(self) -> dict[str, Variant]:
        """Return the variants by name, checked."""
        found: dict[str, Variant] = {}
        for name, table in self.variants.items():
            if not _NAME.fullmatch(name):
                raise UsageError(f"variants.{show(name)}: a name has letters from a to z, digits, '_' and '-' only")
            if not isinstance(table, Mapping):
                raise UsageError(f"variants.{name} takes a table, got {show(table)}")
            found[name] = from_dict(Variant, table, where=f"variants.{name}.")
        for name, one in found.items():
            if not one.trained_as:
                continue
            trained = [other for other, side in found.items() if not side.trained_as]
            if one.trained_as not in trained:
                raise unknown(f"variant in variants.{name}.trained_as", one.trained_as, trained)
            if one.set or one.recipe:
                raise UsageError(f"variants.{name} is trained as {one.trained_as}, so it takes neither set nor recipe")
        return found

    def whole(self) -> Comparison:
        """Return the comparison with every key of every variant, as it is kept beside the runs."""
        return replace(self, variants={name: asdict(side) for name, side in self.sides().items()})

    def recipe_of(self, name: str, seed: int, out: str) -> Recipe:
        """Return the recipe of one run."""
        side = self.sides()[name]
        base = read_recipe(side.recipe or self.recipe)
        mine = _dotted(side.set)
        if mine.get("model.preset", base.model.preset) != base.model.preset:
            base = change(base, {"model.set": {}})  # its numbers are those of another preset
        changes = _dotted({"data": self.data}) | _dotted(self.set) | mine
        return change(base, changes | {"train.seed": seed, "out": out})

    def finetuning_of(self, seed: int, start: str, out: str) -> Recipe:
        """Return the recipe of the run that starts from a trained model."""
        fresh = {"model.preset": "", "model.set": {}, "model.init": start}
        return change(
            change(read_recipe(self.finetune.recipe), fresh),
            _dotted(self.finetune.set) | {"train.seed": seed, "out": out},
        )


def shipped_comparisons() -> list[str]:
    """List the comparisons that come with the package."""
    return sorted(path.stem for path in SHELF.glob("*.toml"))


def about(name: str) -> str:
    """Return the first line of a shipped comparison's comment."""
    return comment_of((SHELF / f"{name}.toml").read_text("utf-8"))[0]


def read_comparison(name: str, changes: Sequence[str] = (), *, debug: bool = False) -> Comparison:
    """Read a comparison by name or file.

    Args:
        name: a shipped comparison, or a path that ends in .toml.
        changes: "key=value"; keys of the comparison or, if it has no such key, of the recipe of every run.
        debug: apply the file's table [debug].
    """
    file = Path(name) if name.endswith(".toml") else SHELF / f"{name}.toml"
    if not file.is_file():
        if name.endswith(".toml"):
            raise UsageError(f"there is no comparison file {name}")
        raise unknown("comparison", name, [LAYERS, *shipped_comparisons()])
    try:
        raw = parse_toml(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    except (ValueError, OSError) as error:
        why = reason_of(error) if isinstance(error, OSError) else error
        raise UsageError(f"{file} cannot be read: {why}") from None
    small = raw.pop("debug", {})
    if not isinstance(small, dict):
        raise UsageError(f"{file}: debug must be a table, got {show(small)}")
    found = from_dict(Comparison, raw)
    if debug and not small:
        raise UsageError(f"{file} has no table [debug]: leave --debug out, or add the table")
    if debug:
        found = _changed(found, _dotted(small))
    return _checked(_changed(found, dict(map(parse_change, changes))))


def _changed(found: Comparison, changes: Mapping[str, Any]) -> Comparison:
    """Change keys of the comparison; other keys are those of the recipe of every run."""
    own = {one.name for one in fields(Comparison)}
    for key, value in changes.items():
        head = key.split(".")[0]
        if head == "data":
            found = replace(found, data={**found.data, key.removeprefix("data."): value})
        elif head in own:
            found = override(found, {key: value})
        else:
            found = replace(found, set={**found.set, key: value})
    return found


def _checked(found: Comparison) -> Comparison:
    if not found.sides():
        raise UsageError("a comparison needs variants: a table [variants.NAME] for each")
    if not found.recipe and not all(side.recipe or side.trained_as for side in found.sides().values()):
        raise UsageError("a comparison needs a recipe: recipe = NAME, or one in each variant")
    if not found.seeds or len(set(found.seeds)) < len(found.seeds) or min(found.seeds) < 0:
        raise UsageError(f"seeds takes different whole numbers from 0 on, got {list(found.seeds)}")
    if any(factor < 1 for factor in found.lengths):
        raise UsageError(f"lengths takes whole numbers from 1 on, got {list(found.lengths)}")
    if found.finetune.set and not found.finetune.recipe:
        raise UsageError("finetune.set needs finetune.recipe")
    return found


def _dotted(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of nested tables by dotted keys, so that they change a recipe key by key."""
    return dict(flat(dict(table)))
