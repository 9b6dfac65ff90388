"""The table of defaults.py: our score in each cell beside the best known setting and the peers."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from defaults_cells import DATA_SETS
from defaults_run import OWN, Found

ENOUGH = 0.5  # points, the smallest difference that counts
HEADER = ("cell", "start", "metric", "recipe", "best known", "gap", "transformers", "bag of words", "behind")


@dataclass(frozen=True)
class Mean:
    """Scores of one setting over seeds."""

    setting: str
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        """The mean."""
        return statistics.fmean(self.values)

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for a single seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def __str__(self) -> str:
        return f"{self.value:.2f}" + (f" ± {self.spread:.2f}" if len(self.values) > 1 else "")


@dataclass(frozen=True)
class Line:
    """A row of the table: one cell from one start."""

    cell: str
    start: str
    metric: str
    ours: Mean
    best: Mean
    peer: Mean | None
    words: Mean | None

    @property
    def gap(self) -> float:
        """How far the recipe is from the best known setting; 0 or negative."""
        return self.ours.value - self.best.value

    @property
    def behind(self) -> list[str]:
        """Where the recipe loses by more than 0.5 points and more than one standard deviation of either side."""
        others = {"setting": self.best, "transformers": self.peer, "words": self.words}
        return [name for name, other in others.items() if other is not None and loses(self.ours, other)]

    def cells(self) -> list[str]:
        """The columns as text."""
        best = "" if self.best is self.ours else f"{self.best} `{self.best.setting}`"
        peer = "" if self.peer is None else f"{self.peer} ({self.peer.setting})"
        behind = ", ".join(self.behind)
        gap = f"{self.gap:+.2f}" if best else ""
        return [self.cell, self.start, self.metric, str(self.ours), best, gap, peer, str(self.words or ""), behind]


def loses(ours: Mean, other: Mean) -> bool:
    return other.value - ours.value > max(ENOUGH, ours.spread, other.spread)


def summarise(runs: Sequence[Found]) -> list[Line]:
    """Compare the recipe with the best known setting and the peers in each cell.

    In each cell, `ours` is the recipe of the last file that has it. Earlier files may have been written by an earlier
    recipe; their runs count as known settings.
    """
    by_side: dict[tuple[str, str, str], list[Found]] = defaultdict(list)
    for run in sorted(runs, key=_order):
        if "failed" not in run:
            by_side[run["cell"], run["start"], run["side"]].append(run)
    files = list(dict.fromkeys(run["file"] for run in runs))
    lines = []
    for (cell, start, side), found in by_side.items():
        own = [run["file"] for run in found if run["setting"] == OWN]
        if side != "qkv" or not own:
            continue
        last = max(own, key=files.index)
        known = means(found, last)
        ours = next(mean for mean in known if mean.setting == OWN)
        best = max([ours, *known], key=_value)
        peer, words = (
            max(means(by_side.get(key, []), last), key=_value, default=None)
            for key in ((cell, start, "hf"), (cell, "", "bow"))
        )
        lines.append(Line(cell, start, found[0]["metric"], ours, best, peer, words))
    return lines


def means(runs: Sequence[Found], last: str) -> list[Mean]:
    """Group runs by setting. The recipe of a file other than `last` is a setting of its own."""
    values: dict[str, dict[int, float]] = defaultdict(dict)
    for run in runs:
        other = run["setting"] == OWN and run["file"] != last
        values[f"{OWN} of {run['file']}" if other else run["setting"]][run["seed"]] = run["score"]
    return [Mean(setting, tuple(seeds.values())) for setting, seeds in values.items()]


def _value(mean: Mean) -> float:
    return mean.value


def _order(run: Found) -> tuple[int, int]:
    """Sort by data set, then by size; the sort is stable."""
    return list(DATA_SETS).index(run["cell"].partition("/")[0]), run["examples"]


def table(runs: Sequence[Found]) -> str:
    """Format the comparison as a Markdown table, followed by averages."""
    lines = summarise(runs)
    parts = [_markdown(HEADER, (line.cells() for line in lines)), "", *_averages(lines)]
    behind = [line for line in lines if line.behind]
    parts.append(f"{len(lines) - len(behind)} of {len(lines)} cells hold.")
    return "\n".join([*parts, *_failures(runs, lines)]) + "\n"


def _failures(runs: Sequence[Found], lines: Sequence[Line]) -> list[str]:
    """List the cells whose recipe has only failed."""
    there = {(line.cell, line.start) for line in lines}
    failed = {
        (run["cell"], run["start"]): run["failed"] for run in runs
        if run["side"] == "qkv" and run["setting"] == OWN and "failed" in run
    }  # fmt: skip
    return [f"- failed: {' '.join(key)}: {error}" for key, error in failed.items() if key not in there]


def _averages(lines: Sequence[Line]) -> list[str]:
    others: dict[str, Callable[[Line], Mean | None]] = {
        "the best known settings": lambda line: line.best,
        "transformers": lambda line: line.peer,
        "a bag of words": lambda line: line.words,
    }
    found = []
    for start in dict.fromkeys(line.start for line in lines):
        for name, other in others.items():
            both = [(line.ours.value, mean.value) for line in lines if line.start == start and (mean := other(line))]
            if both:
                ours, theirs = (statistics.fmean(side) for side in zip(*both, strict=True))
                found.append(f"- {start}, {len(both)} cells: the recipes {ours:.2f}, {name} {theirs:.2f}")
    return [*found, ""]


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    numbers = {"recipe", "gap"}
    rule = ["---:" if name in numbers else "---" for name in header]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))
