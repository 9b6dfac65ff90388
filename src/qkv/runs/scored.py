"""One run of a comparison, scored: its quality, also on inputs longer than in training, and what it cost."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from qkv.checkpoints.folder import Folder, read_folder
from qkv.checkpoints.weights import WHOLE
from qkv.common import disk
from qkv.common.config import override
from qkv.common.errors import UsageError, unknown
from qkv.common.progress import Bar
from qkv.evaluation.score import Score
from qkv.exams.evaluate import evaluate
from qkv.models import catalogue
from qkv.predict import Model
from qkv.recipes.comparison import Comparison, Variant
from qkv.recipes.schema import Recipe
from qkv.runs.history import metrics_of
from qkv.runs.layout import ENERGY, OUTCOME, SCORES, read_table
from qkv.runs.prepare import reading
from qkv.tasks.exam import Exam
from qkv.tasks.split import validation_examples
from qkv.tasks.table import read_task

LOSS = "loss"


@dataclass(frozen=True)
class Scored:
    """The figures of one run.

    Attributes:
        metric: the name of the score.
        value: the score; None where only lengths are scored.
        longer: the score on inputs so many times as long as in training; None where the positions end before.
        parameters: the weights of the scored model.
        tokens_per_second: the median over the training.
        seconds: of training, fine-tuning included.
        kwh: the energy of the same.
        estimated: whether the energy is an estimate.
        signature: how the score was computed.
        steps: optimizer steps of the first run.
    """

    metric: str
    value: float | None
    longer: dict[str, float | None]
    parameters: int
    tokens_per_second: float
    seconds: float
    kwh: float
    estimated: bool
    signature: str
    steps: int


def scored(
    comparison: Comparison, side: Variant, recipe: Recipe, runs: Sequence[Path], keep: Path, device: str | None
) -> Scored:
    """Return the figures of a run; they are kept in the file `keep` and computed again if anything has changed.

    Args:
        comparison: says what to score.
        side: the variant; `read` changes the model.
        recipe: of the last run, the one that is scored.
        runs: the run and, if there is one, its fine-tuning.
        keep: the file.
        device: where the model runs.
    """
    asked: dict[str, Any] = {
        "metric": comparison.metric,
        "lengths": list(comparison.lengths),
        "read": side.read,
        "test": list(recipe.data.test),
        "weights": disk.digest_of(runs[-1] / WHOLE),
    }
    kept = read_table(keep)
    if kept.get("asked") == asked:
        return Scored(**kept["scored"])
    found = _scored(comparison, side, recipe, runs, device)
    keep.parent.mkdir(parents=True, exist_ok=True)
    disk.replace_file(keep, json.dumps({"asked": asked, "scored": asdict(found)}, indent=2).encode() + b"\n")
    return found


def _scored(comparison: Comparison, side: Variant, recipe: Recipe, runs: Sequence[Path], device: str | None) -> Scored:
    folder = reread(read_folder(runs[-1]), side.read)
    speeds = [line["tokens_per_second"] for line in metrics_of(runs[0]) if "tokens_per_second" in line]
    energies = [read_table(run / ENERGY) for run in runs]
    common: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in folder.model.parameters()),
        "tokens_per_second": statistics.median(speeds) if speeds else math.nan,
        "seconds": sum(float(one.get("seconds", 0.0)) for one in energies),
        "kwh": sum(float(one.get("kwh", 0.0)) for one in energies),
        "estimated": any(one.get("estimated", True) for one in energies),
        "steps": int(read_table(runs[0] / OUTCOME).get("step", 0)),
    }
    if comparison.lengths:
        score = score_lengths(recipe, folder, comparison.lengths, device)
        first = next((one for one in score.values() if one is not None), None)
        name, signature = (comparison.metric, "") if first is None else (first.name, first.signature)
        if comparison.metric and name.lower() != comparison.metric.lower():
            raise UsageError(
                f"longer inputs are scored by {name}, not by {comparison.metric}: change metric or lengths"
            )
        values = {str(times): None if one is None else one.value for times, one in score.items()}
        return Scored(metric=name, value=None, longer=values, signature=signature, **common)
    name, value, signature = _quality(comparison.metric, side, recipe, folder, runs[-1], device)
    return Scored(metric=name, value=value, longer={}, signature=signature, **common)


def reread(folder: Folder, changes: dict[str, Any]) -> Folder:
    """Return a model with a changed config and the same weights."""
    if not changes:
        return folder
    config = override(folder.config, changes)
    model = catalogue.build(config).eval()
    try:
        model.load_state_dict(folder.model.state_dict())
    except RuntimeError:
        raise UsageError(f"read {changes}: the weights of the trained model do not fit this config") from None
    return replace(folder, config=config, model=model)


def score_lengths(recipe: Recipe, folder: Folder, times: Sequence[int], device: str | None) -> dict[int, Score | None]:
    """Score a model on inputs so many times as long as in training: the test files or, without them, validation."""
    task = read_task(recipe.task, recipe.objective, recipe.data).resolved(lambda _: None)
    given = None if recipe.data.test else list(validation_examples(task))
    with Bar("scoring") as bar:
        exam = Exam(Model(folder, device=device), recipe.data.test, progress=bar.add, given=given)
        return dict(zip(times, task.score_longer(exam, times), strict=True))


def _quality(
    metric: str, side: Variant, recipe: Recipe, folder: Folder, run: Path, device: str | None
) -> tuple[str, float, str]:
    """Return a score's name, value and signature: from the run's report, or computed now if the model is changed."""
    if side.read:
        if not recipe.data.test:
            raise UsageError("read needs test files: set data.test")
        scores = evaluate(Model(folder, device=device), recipe.data.test, reading(recipe), ends=True)
        table = {one.name: (one.value, one.signature) for one in reversed(scores)}
        table = {one.name: table[one.name] for one in scores}
    else:
        kept = read_table(run / SCORES)
        table = {
            name: (one["value"], f"{kept['data']}|{one['signature']}") for name, one in kept.get("scores", {}).items()
        }
        valid = read_table(run / OUTCOME).get("scores") or {}
        table |= {name: (value, "validation") for name, value in valid.items() if name not in table}
    if not table:
        raise UsageError(f"{run} has no score to compare: give test files (data.test)")
    known = {name.lower(): name for name in reversed(table)}
    if metric and metric.lower() not in known:
        raise unknown("metric", metric, table)
    name = known[metric.lower()] if metric else next(iter(table))
    value, signature = table[name]
    return name, math.nan if value is None else float(value), signature
