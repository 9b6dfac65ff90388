"""The model card, README.md in the model folder: what the model is, what it scores and how to use it."""

from __future__ import annotations

from html import escape
from pathlib import Path

from qkv.common.terminal import one_line
from qkv.evaluation.report import number
from qkv.exams.report.contents import Report, RunFacts
from qkv.exams.report.naming import interval_of, name_of, verdict
from qkv.exams.report.training import duration, kept_line

MARK = "<!-- Written by qkv. Remove this line to keep your own text: qkv then leaves this file alone. -->"
FILES = """## Files

`report.html` shows curves, classes, calibration and the worst mistakes, and `scores.json` holds the same numbers. Both
quote examples of the data: leave them out where you publish the model but not the data. `recipe.toml` has every setting
of the run."""
LANGUAGES = {"Shell": "sh", "Python": "python", "transformers": "python"}


def card(report: Report) -> str:
    """Return the model card as Markdown."""
    rows = dict(report.model) | (_trained(report.run) if report.run else {}) | _scored(report)
    told = [verdict(report.study)] if report.study else []
    parts = [
        f"{MARK}\n# {_plain(report.title)}",
        *(f"**{_plain(note)}**" for note in told if note),
        "\n".join(["| | |", "| --- | --- |", *(f"| {_plain(key)} | {_plain(rows[key])} |" for key in rows)]),
        _use(report),
        FILES,
        _plain(report.made),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def is_ours(file: Path) -> bool:
    """Whether qkv may write a model card: there is none yet, or qkv wrote it and nobody has taken it over."""
    if not file.exists():
        return True
    with file.open("rb") as stream:
        return stream.readline().strip() == MARK.encode()


def _trained(run: RunFacts) -> dict[str, str]:
    found = {"task": run.task, "start": run.start or "random weights", "training data": ", ".join(run.train)}
    seconds = float(run.energy.get("seconds", 0.0))
    kwh = float(run.energy.get("kwh", 0.0))
    measured = "estimated" if run.energy.get("estimated") else "measured"
    found["training"] = f"{run.steps:,} steps in {duration(seconds)}, {kwh:.3g} kWh ({measured})"
    if (kept := kept_line(run)) is not None:
        found["validation loss"] = f"{number(kept['valid_loss'])}, with the weights of step {kept['step']:,}"
    return {name: value for name, value in found.items() if value}


def _scored(report: Report) -> dict[str, str]:
    study = report.study
    if study is None:
        return {}
    found = {"scored on": study.about} if study.about else {}
    for place, score in enumerate(study.scores):
        trivial = "".join(f"; {name}: {number(scores[place].value)}" for name, scores in study.trivial.items())
        found[name_of(score)] = f"{number(score.value)} (95 % interval {interval_of(score)}){trivial}"
    return found


def _use(report: Report) -> str:
    blocks = [f"```{LANGUAGES[one.where]}\n{one.lines}\n```" for one in report.usage]
    return "## Use it\n\n" + "\n\n".join(blocks) if blocks else ""


def _plain(text: str) -> str:
    """Write a text so that Markdown shows it as it is, on one line."""
    found = escape(one_line(text), quote=False)
    for sign in "\\`*_[]|":
        found = found.replace(sign, f"\\{sign}")
    return found
