"""Two or more runs side by side: the settings that differ, their curves, and a paired test on the same data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qkv.common.errors import UsageError
from qkv.runs.history import metrics_of, settings_of

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40  # columns of a curve
Curve = list[tuple[int, float]]  # (step, value)


def differences(folders: Sequence[Path]) -> dict[str, list[Any]]:
    """Return the settings that are not the same in all runs: the value in each of them, None where it is not set."""
    tables = [settings_of(folder) for folder in folders]
    keys = dict.fromkeys(key for table in tables for key in table)
    found = {key: [table.get(key) for table in tables] for key in keys}
    return {key: values for key, values in found.items() if any(value != values[0] for value in values)}


def curves(folders: Sequence[Path]) -> dict[str, list[Curve]]:
    """Return the training loss and the validation values that every run measured, by name; one curve a run."""
    lines = [metrics_of(folder) for folder in folders]
    names = [{key for line in some for key, value in line.items() if isinstance(value, float)} for some in lines]
    shared = sorted(key for key in set.intersection(*names) if key == "loss" or key.startswith("valid_"))
    found = {name: [_curve(some, name) for some in lines] for name in shared}
    kept: dict[str, list[Curve]] = {}
    for name, each in sorted(found.items(), key=lambda item: item[0] != "valid_loss"):
        if each not in kept.values():  # the loss of a single part is the loss
            kept[name] = each
    return kept


def _curve(lines: Sequence[dict[str, Any]], name: str) -> Curve:
    return [(line["step"], line[name]) for line in lines if isinstance(line.get(name), float) and "step" in line]


@dataclass(frozen=True)
class Scale:
    """What the columns and the heights of several curves mean.

    Attributes:
        steps: the step of the last column.
        low: the value of the lowest block.
        high: the value of the highest block.
    """

    steps: int
    low: float
    high: float

    @staticmethod
    def of(several: Sequence[Curve]) -> Scale:
        """Choose the scale that holds every curve."""
        points = [point for curve in several for point in curve if math.isfinite(point[1])]
        values = [value for _, value in points] or [0.0]
        return Scale(max((step for step, _ in points), default=1), min(values), max(values))

    def sparkline(self, curve: Curve, width: int = WIDTH) -> str:
        """Draw a curve as a row of blocks. A column shows the last value up to its step; after the last it is blank."""
        drawn, last = "", max((step for step, _ in curve), default=0)
        for column in range(width):
            start, end = (self.steps * place / width for place in (column, column + 1))
            before = [value for step, value in curve if step <= end and math.isfinite(value)]
            drawn += self._block(before[-1]) if before and start < last else " "
        return drawn

    def _block(self, value: float) -> str:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return BLOCKS[min(int(share * len(BLOCKS)), len(BLOCKS) - 1)]


def score_runs(
    folders: Sequence[Path],
    files: Sequence[str],
    *,
    device: str | None = None,
    say: Callable[[str], None],
    progress: Callable[[int], None],
) -> list[dict[str, Any]]:
    """Score every run on the same files and compare each with the first.

    Returns:
        For each metric its "name", the "values" of the runs, and the "differences" of the later ones to the first.
    """
    from qkv.evaluation.paired import paired
    from qkv.exams.evaluate import evaluate
    from qkv.predict import load
    from qkv.runs.trained_on import reading_for

    found = []
    for folder in folders:
        model = load(folder, device=device)
        read = reading_for(model, str(folder), {}, say)
        scores = evaluate(model, list(files), read.data, progress, ends=read.ends)
        found.append({(score.name, score.signature): score for score in scores})
    shared = [key for key in found[0] if all(key in scores for scores in found)]
    if not shared:
        raise UsageError(f"{' and '.join(map(str, folders))} have no metric in common: compare runs of one task")
    rows = []
    for key in shared:
        first, *others = (scores[key] for scores in found)
        pairs = [paired(first, other) for other in others]
        rows.append(
            {
                "name": first.name,
                "values": [score.value for score in (first, *others)],
                "count": first.count,
                "differences": [None if pair is None else pair.to_dict() for pair in pairs],
            }
        )
    return rows
