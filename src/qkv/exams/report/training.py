"""The sections of the page about the training: curves, recipe, time and energy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from qkv.evaluation.report import number
from qkv.exams.report import charts
from qkv.exams.report.charts import Point, Series
from qkv.exams.report.contents import RunFacts
from qkv.exams.report.markup import escaped, facts, section

VALID = "valid_"
NOT_LOSSES = {"step", "rate", "skipped", "loss", "gradient"}
LANGUAGE = ("valid_lm", "valid_mlm")  # losses per token, which have a perplexity
CHARTS = 8


def curves(run: RunFacts) -> str:
    """Return the curves of the loss, its parts, the validation metrics and the learning rate."""
    trained = [line for line in run.metrics if "loss" in line]
    parts = [key for key in _keys(trained) if key not in NOT_LOSSES and not key.endswith("_per_second")]
    measured = [key for key in _keys(run.metrics) if key.startswith(VALID) and not key.endswith(".nll")]
    drawn = [("Loss", _both(run, "loss"))]
    if len(parts) > 1:
        drawn += [(f"Loss: {part}", _both(run, part)) for part in parts if f"{VALID}{part}" in measured]
    known = {f"{VALID}{name}" for name in ("loss", *parts)}
    if any("." not in key for key in measured if key not in known):  # the task's own metrics include the accuracy
        measured = [key for key in measured if "." not in key]
    drawn += [
        (f"Validation: {_metric(key)}", [Series("validation", _points(run.metrics, key), "two")])
        for key in measured
        if key not in known
    ]
    drawn.append(("Learning rate, as a share of optim.lr", [Series("rate", _points(run.metrics, "rate"))]))
    drawn.append(("Gradient norm", [Series("gradient", _points(run.metrics, "gradient"))]))
    figures = [(title, charts.lines(series)) for title, series in drawn]
    body = "".join(f"<div><h3>{escaped(title)}</h3>{figure}</div>" for title, figure in figures[:CHARTS] if figure)
    return section("curves", "Curves", f'<div class="grid2">{body}</div>' if body else "", _kept(run))


def losses(run: RunFacts) -> str:
    """Return the validation loss, large, for a task without other scores."""
    best = kept_line(run)
    if best is None:
        return ""
    told = f"<span>at step {best['step']:,} of {run.steps:,}</span>"
    found = [f'<div class="tile"><span>validation loss</span><b>{number(best["valid_loss"])}</b>{told}</div>']
    for key in LANGUAGE:
        if isinstance(value := best.get(key), float):
            what = "perplexity" if key == "valid_lm" else "perplexity of masked tokens"
            shown, told = number(math.exp(min(value, 700))), f"<span>exp({number(value)})</span>"
            found.append(f'<div class="tile"><span>{what}</span><b>{shown}</b>{told}</div>')
    return f'<div class="tiles">{"".join(found)}</div>'


def kept_line(run: RunFacts) -> Mapping[str, Any] | None:
    """Return the validation in metrics.jsonl of the weights that the folder holds, otherwise the last one."""
    measured = [line for line in run.metrics if _is_number(line.get("valid_loss"))]
    kept = [line for line in measured if line.get("step") == run.weights_of]
    return next(reversed(kept or measured), None)


def recipe(run: RunFacts) -> str:
    """Return the resolved recipe."""
    text = "\n".join(escaped(line) for line in run.recipe.splitlines())
    lead = "Every setting of the run, including those that the recipe left to qkv (recipe.toml)."
    return section("recipe", "Recipe", f"<details><summary>recipe.toml</summary><pre>{text}</pre></details>", lead)


def cost(run: RunFacts) -> str:
    """Return time and energy."""
    energy = run.energy
    seconds = float(energy.get("seconds", 0.0))
    rows = [("training time", duration(seconds)), ("steps", f"{run.steps:,}")]
    if seconds:
        rows.append(("steps per second", f"{run.steps / seconds:.3g}"))
    for unit in (key for key in _keys(run.metrics) if key.endswith("_per_second")):
        rows.append((unit.replace("_", " "), f"{median(speed for _, speed in _points(run.metrics, unit)):,.0f}"))
    for part, joules in dict(energy.get("joules", {})).items():
        source = dict(energy.get("sources", {})).get(part, "")
        rows.append((f"energy, {part}", f"{joules / 1000:,.3g} kJ ({escaped(source)})"))
    if "kwh" in energy:
        rows.append(("energy in all", f"{energy['kwh']:.3g} kWh"))
        grid = energy.get("carbon_intensity_g_per_kwh", 0)
        rows.append(("CO₂", f"{energy.get('co2_g', 0):.3g} g at {grid:g} g per kWh"))
    rows.append(("ended", {"early": "early, when validation stopped improving"}.get(run.ended, escaped(run.ended))))
    return section("cost", "Time and energy", facts(rows))


def duration(seconds: float) -> str:
    """Write a time in hours, minutes and seconds."""
    minutes, rest = divmod(seconds, 60)
    if minutes < 1:
        return f"{rest:.1f} s"
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest:.0f} s"


def _kept(run: RunFacts) -> str:
    kept = kept_line(run)
    if kept is None:
        return ""
    of = f"step {kept['step']:,} of {run.steps:,}"
    return f"The folder holds the weights of {of}, with a validation loss of {number(kept['valid_loss'])}."


def _metric(key: str) -> str:
    name = key.removeprefix(VALID)
    return f"accuracy ({name.removesuffix('.correct')})" if name.endswith(".correct") else name


def _both(run: RunFacts, name: str) -> list[Series]:
    return [
        Series("training", _points(run.metrics, name)),
        Series("validation", _points(run.metrics, VALID + name), "two"),
    ]


def _points(metrics: Sequence[Mapping[str, Any]], key: str) -> list[Point]:
    there = (line for line in metrics if "step" in line and _is_number(line.get(key)))
    return [(float(line["step"]), float(line[key])) for line in there]


def _keys(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for line in metrics for key in line))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
