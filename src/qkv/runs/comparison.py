"""`qkv compare`: train every variant of a comparison with every seed, and put the figures side by side.

    OUT/comparison.toml        what was asked for
    OUT/NAME-SEED/             a run like any other: `qkv runs OUT` lists them
    OUT/NAME-SEED-finetuned/   the run that starts from it, if the comparison fine-tunes
    OUT/scored/NAME-SEED.json  its figures
    OUT/comparison.json, .svg  the table and the picture

The same command goes on with a comparison that was stopped: finished runs are kept, a stopped one continues.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from qkv.common import disk
from qkv.common.config import to_toml
from qkv.common.errors import QkvError, system_errors
from qkv.predict.device import find_device
from qkv.recipes.check import check
from qkv.recipes.comparison import Comparison
from qkv.recipes.schema import Recipe, Say, change
from qkv.runs.budget import check_parameters, steps_within
from qkv.runs.comparison_picture import picture
from qkv.runs.run import run_or_resume
from qkv.runs.scored import Scored, scored
from qkv.tasks.table import read_task
from qkv.version import __version__

TABLE, PICTURE, ASKED = "comparison.json", "comparison.svg", "comparison.toml"


@dataclass(frozen=True)
class Spread:
    """A figure over seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean; nan if there is no value."""
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds; None for a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON, which has no nan."""
        plain = [value if math.isfinite(value) else None for value in self.values]
        return {"mean": self.mean if None not in plain and plain else None, "sd": self.deviation, "values": plain}


@dataclass(frozen=True)
class Row:
    """One variant of a comparison.

    Attributes:
        name: the variant.
        runs: its figures, one a seed.
        folders: the folders of its runs.
    """

    name: str
    runs: Sequence[Scored]
    folders: Sequence[str]

    def of(self, figure: str) -> Spread:
        """Return a figure of `Scored` over the seeds."""
        return Spread(tuple(float(value) for run in self.runs if (value := getattr(run, figure)) is not None))

    def longer(self, times: int) -> Spread:
        """Return the score at a multiple of the training length; no values where the positions end before."""
        return Spread(tuple(value for run in self.runs if (value := run.longer.get(str(times))) is not None))


@dataclass(frozen=True)
class Compared:
    """The result of a comparison."""

    name: str
    metric: str
    lengths: Sequence[int]
    seeds: Sequence[int]
    rows: Sequence[Row]
    device: str

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value of the metric is a better one."""
        return self.metric.lower().endswith(("perplexity", "loss", "mse"))

    def to_dict(self) -> dict[str, Any]:
        """Return the table for JSON."""
        return {
            "comparison": self.name,
            "metric": self.metric,
            "better": "lower" if self.lower_is_better else "higher",
            "seeds": list(self.seeds),
            "lengths": list(self.lengths),
            "signature": self.rows[0].runs[0].signature,
            "device": self.device,
            "versions": {"qkv": __version__, "torch": torch.__version__},
            "variants": [_plain(row, self.lengths) for row in self.rows],
        }


def _plain(row: Row, lengths: Sequence[int]) -> dict[str, Any]:
    scores: dict[str, Any] = {"score": row.of("value").to_dict()} if not lengths else {}
    if lengths:
        scores = {"longer": {str(times): row.longer(times).to_dict() for times in lengths}}
    costs = {key: row.of(key).to_dict() for key in ("tokens_per_second", "seconds", "kwh", "steps")}
    facts = {"parameters": row.runs[0].parameters, "energy_estimated": any(run.estimated for run in row.runs)}
    return {"name": row.name, "runs": list(row.folders), **scores, **facts, **costs}


@system_errors()
def compare(comparison: Comparison, name: str, out: str, *, device: str | None = None, say: Say) -> Compared:
    """Train and score what a comparison asks for, and write its table and its picture.

    Args:
        comparison: what to compare.
        name: its name in the table and the picture.
        out: the folder for the runs and the result.
        device: "cpu", "cuda" or "cuda:1". If None, CUDA if it is available.
        say: called with each line of progress.
    """
    root, sides = disk.plain_folder(Path(out)), comparison.sides()
    where = str(find_device(device))
    trained = [side for side, one in sides.items() if not one.trained_as]
    _check(comparison, trained, out)
    root.mkdir(parents=True, exist_ok=True)
    disk.replace_file(root / ASKED, to_toml(comparison.whole()).encode())
    steps = _steps(comparison, trained, out, device, say)
    done = {}
    for number, (side, seed) in enumerate(((side, seed) for side in trained for seed in comparison.seeds), 1):
        say(f"{side}, seed {seed} ({number} of {len(trained) * len(comparison.seeds)})")
        done[side, seed] = _run(comparison, side, seed, out, steps.get(side), device, say)
    rows = []
    for side, one in sides.items():
        found = [done[one.trained_as or side, seed] for seed in comparison.seeds]
        keeps = [root / "scored" / f"{side}-{seed}.json" for seed in comparison.seeds]
        runs = [
            scored(comparison, one, recipe, folders, keep, device)
            for (recipe, folders), keep in zip(found, keeps, strict=True)
        ]
        rows.append(Row(side, runs, [str(folders[-1]) for _, folders in found]))
    kind = rows[0].runs[0].metric
    compared = Compared(name, kind, comparison.lengths, comparison.seeds, rows, where)
    disk.replace_file(root / TABLE, json.dumps(compared.to_dict(), indent=2, ensure_ascii=False).encode() + b"\n")
    disk.replace_file(root / PICTURE, picture(compared).encode())
    return compared


def _check(comparison: Comparison, trained: Sequence[str], out: str) -> None:
    """Raise an error for a variant that cannot run, before the first one starts."""
    recipes = {side: comparison.recipe_of(side, comparison.seeds[0], f"{out}/{side}") for side in trained}
    for side, recipe in recipes.items():
        try:
            check(recipe)
        except QkvError as error:
            raise type(error)(f"variant {side}: {error}") from None
    if comparison.finetune.recipe:
        recipe = comparison.finetuning_of(comparison.seeds[0], out if Path(out).is_dir() else ".", out)
        read_task(recipe.task, recipe.objective, recipe.data).objective()
    if comparison.budget.parameters:
        check_parameters(recipes, comparison.budget.parameters)


def _steps(comparison: Comparison, trained: Sequence[str], out: str, device: str | None, say: Say) -> Mapping[str, int]:
    """Return the steps of each variant, if it is the time that is equal."""
    seconds = comparison.budget.seconds
    if not seconds:
        return {}
    recipes = {side: comparison.recipe_of(side, comparison.seeds[0], f"{out}/{side}") for side in trained}
    found = recipes.items()
    return {side: steps_within(seconds, one, side, Path(out), device=device, say=say) for side, one in found}


def _run(
    comparison: Comparison, side: str, seed: int, out: str, steps: int | None, device: str | None, say: Say
) -> tuple[Recipe, list[Path]]:
    """Train one variant with one seed; return the recipe of the run that is scored, and the folders."""
    recipe = comparison.recipe_of(side, seed, f"{out}/{side}-{seed}")
    if steps is not None:
        recipe = change(recipe, {"train.steps": steps})
    run_or_resume(recipe, device=device, say=say)
    folders = [Path(recipe.out)]
    if comparison.finetune.recipe:
        recipe = comparison.finetuning_of(seed, recipe.out, f"{recipe.out}-finetuned")
        run_or_resume(recipe, device=device, say=say)
        folders.append(Path(recipe.out))
    return recipe, folders
