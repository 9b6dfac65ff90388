"""The output of `qkv runs` and `qkv recipes` as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qkv.evaluation.report import number
from qkv.runs.compare import Curve, Scale
from qkv.runs.history import RunSummary


def run_table(runs: Sequence[RunSummary]) -> str:
    """Format runs, a line each; why a run failed follows below its line."""
    rows = [["folder", "task", "model", "state", "steps", "validation", "test", "time", "kWh", "date"]]
    for run in runs:
        kwh = "" if run.kwh is None else f"{run.kwh:.2g}"
        values = [_values(run.best, 2), _values(run.test, 2), duration(run.seconds), kwh, run.date]
        rows.append([run.folder, run.task, run.model, run.state, f"{run.steps:,}", *values])
    lines = columns(rows).split("\n")
    whys = [f"  {run.why}" if run.why else "" for run in runs]
    return "\n".join([lines[0], *(part for pair in zip(lines[1:], whys, strict=True) for part in pair if part)])


def comparison(
    names: Sequence[str],
    settings: Mapping[str, Sequence[Any]],
    curves: Mapping[str, Sequence[Curve]],
    scores: Sequence[Mapping[str, Any]],
) -> str:
    """Format what differs between runs: settings, curves, and scores on the same data."""
    rows = [["setting", *names], *([key, *map(_setting, values)] for key, values in settings.items())]
    parts = [columns(rows) if settings else "All settings are the same."]
    parts += [_curves(name, names, several) for name, several in curves.items()]
    if scores:
        parts.append(_scores(names, scores))
    return "\n\n".join(parts)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as columns that are as wide as their widest cell."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _curves(name: str, names: Sequence[str], several: Sequence[Curve]) -> str:
    """Draw the curves of one value on one scale, each with its last and its extreme values."""
    scale, width = Scale.of(several), max(map(len, names))
    lines = [f"{name.replace('_', ' ')}: {number(scale.low)} to {number(scale.high)}, {scale.steps:,} steps"]
    for run, curve in zip(names, several, strict=True):
        low, high, last = min(v for _, v in curve), max(v for _, v in curve), curve[-1][1]
        ends = f"last {number(last)}, lowest {number(low)}, highest {number(high)}"
        lines.append(f"{run:<{width}}  {scale.sparkline(curve)}  {ends}")
    return "\n".join(lines)


def _scores(names: Sequence[str], scores: Sequence[Mapping[str, Any]]) -> str:
    """Format scores on the same data, and the difference of each later run to the first with its interval."""
    rows = [["metric", *names, "examples"]]
    rows += [[row["name"], *map(number, row["values"]), f"{row['count']:,}"] for row in scores]
    more = [["difference to " + names[0], "metric", "value", "95% interval", "p"]]
    for row in scores:
        for name, found in zip(names[1:], row["differences"], strict=True):
            if found is None:
                continue
            sign = "+" if found["value"] > 0 else ""
            known = found["p"] is not None
            interval = f"[{number(found['low'])}, {number(found['high'])}]" if known else "not computed"
            p = f"{found['p']:.3f}" if known else ""
            more.append([name, row["name"], sign + number(found["value"]), interval, p])
    return f"{columns(rows)}\n\n{columns(more)}\n(paired bootstrap, 1,000 replicas; p is two-sided)"


def _setting(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None or value == "" else str(value)


def _values(values: Mapping[str, float], most: int) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in [*values.items()][:most])


def duration(seconds: float | None) -> str:
    """Format seconds as minutes and seconds, or with hours."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
