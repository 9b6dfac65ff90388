"""`qkv glue FOLDER`: fine-tune and score every GLUE task (Wang et al. 2019) in a folder.

    FOLDER/CoLA/train.tsv, dev.tsv ─► out/CoLA-1/ (a run for each seed) ─► out/glue.json (scores, task by task)

Tasks that are already in glue.json are skipped.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qkv.checkpoints import hub
from qkv.common import disk
from qkv.common.errors import UsageError, unknown
from qkv.data.hub import is_hub
from qkv.evaluation.score import Score
from qkv.exams.evaluate import evaluate
from qkv.exams.glue_files import TASKS, GlueTask, find_tasks
from qkv.models import catalogue
from qkv.predict.loading import built_in, find, load
from qkv.recipes.schema import Recipe, Say, change, read_recipe
from qkv.runs.run import run_or_resume

Found = dict[str, Any]


def glue(
    folder: str,
    model: str,
    *,
    out: str = "runs/glue",
    tasks: Sequence[str] = (),
    epochs: float | None = None,
    seeds: int = 1,
    changes: Mapping[str, Any] | None = None,
    device: str | None = None,
    say: Say,
) -> Found:
    """Fine-tune and score a model on GLUE.

    Args:
        folder: the GLUE download, with one subfolder per task. Files may be compressed.
        model: a model folder, a model on the Hub (hf:OWNER/NAME), or a preset to train from scratch.
        out: where to keep runs and scores.
        tasks: which tasks to run. If empty, all that the folder has.
        epochs: passes over the data. If None, the recipe decides.
        seeds: runs per task.
        changes: changes to every recipe, by dotted keys.
        device: "cpu", "cuda" or "cuda:1". If None, CUDA if it is available.
        say: called with each line of progress.

    Returns:
        "model", "epochs", "changes", "scores" (task, metric, value of each seed) and "average".
    """
    if seeds < 1:
        raise UsageError(f"seeds must be at least 1, got {seeds}")
    files = find_tasks(folder, tasks, say)
    model = hub.pinned(model) if is_hub(model) else model  # all runs start from the same weights
    start = _start(model)
    asked: Found = {"model": model, "epochs": epochs, "changes": dict(changes or {})}
    length = {} if epochs is None else {"train.epochs": epochs}
    kept = _kept(Path(out) / "glue.json", asked)
    for name, (train, dev) in files.items():
        for seed in range(1, seeds + 1):
            if str(seed) in kept.setdefault(name, {}):
                continue
            say(f"{name}, seed {seed}")
            place = {"data.train": [train], "data.valid": dev[:1], "out": f"{out}/{name}-{seed}", "train.seed": seed}
            recipe = change(_recipe(TASKS[name]), {**start, **place, **length, **(changes or {})})
            kept[name][str(seed)] = _run(recipe, TASKS[name], dev, device, say)
            text = json.dumps(asked | {"scores": kept}, indent=2)
            disk.replace_file(Path(out) / "glue.json", text.encode() + b"\n")
    scores = {name: _by_metric([kept[name][str(seed)] for seed in range(1, seeds + 1)]) for name in files}
    return asked | {"scores": scores, "average": statistics.fmean(map(_of_task, scores.values()))}


def table(found: Found) -> str:
    """Format the scores as one line in percent, with ± the standard deviation over seeds."""
    head, line = ["model"], [Path(found["model"]).name]
    for name, metrics in found["scores"].items():
        head.append(name)
        line.append("/".join(f"{100 * statistics.fmean(values):.1f}" for values in metrics.values()))
        if spread := [statistics.stdev(values) for values in metrics.values() if len(values) > 1]:
            line[-1] += f" ± {100 * max(spread):.1f}"
    head.append("average")
    line.append(f"{100 * found['average']:.1f}")
    widths = [max(map(len, pair)) for pair in zip(head, line, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in (head, line))


def _run(recipe: Recipe, task: GlueTask, dev: Sequence[str], device: str | None, say: Say) -> dict[str, float]:
    """Train once and score; resume a run that was stopped."""
    place = Path(recipe.out)
    run_or_resume(recipe, device=device, say=say)
    model = load(place, device=device)
    scores: dict[str, float] = {}
    for name, path in zip(task.dev, dev, strict=True):
        values = _values(evaluate(model, [path], recipe.data))
        scores |= {m if name == task.dev[0] else f"{m} ({name.removeprefix('dev_')})": values[m] for m in task.metrics}
    return scores


def _values(scores: Sequence[Score]) -> dict[str, float]:
    parts = {name: value for score in scores for name, value in score.parts.items()}
    return parts | {score.name: score.value for score in scores}


def _recipe(task: GlueTask) -> Recipe:
    # every copy of QQP has lines with missing columns; they are skipped and counted
    columns = {"data.text": task.text, "data.second": task.second, "data.label": task.label, "data.skip_bad": True}
    return change(read_recipe(task.recipe), {**columns, "data.format": "tsv"})


def _start(model: str) -> dict[str, str]:
    if is_hub(model):
        return {"model.init": model}
    if Path(model).is_dir() or model in built_in():
        return {"model.init": str(find(model))}
    if model not in catalogue.PRESETS:
        raise unknown("model folder or preset", model, [*built_in(), *catalogue.PRESETS])
    return {"model.preset": model}


def _kept(file: Path, asked: Found) -> dict[str, dict[str, dict[str, float]]]:
    """Read earlier scores, which must come from the same model with the same settings."""
    if not file.is_file():
        return {}
    try:
        old = json.loads(file.read_text("utf-8"))
        same, scores = all(old[key] == asked[key] for key in asked), dict(old["scores"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UsageError(f"{file} cannot be read ({error}): choose another folder with --out") from None
    if not same:
        raise UsageError(f"{file} holds scores of {old['model']} with other settings: choose another folder with --out")
    return scores


def _by_metric(runs: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {metric: [run[metric] for run in runs] for metric in runs[0]}


def _of_task(metrics: Mapping[str, Sequence[float]]) -> float:
    return statistics.fmean(statistics.fmean(values) for values in metrics.values())
