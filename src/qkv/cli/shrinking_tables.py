"""The tables of `qkv prune` and `qkv shrink`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qkv.cli.run_tables import columns
from qkv.evaluation.report import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qkv.runs.gauge import Figures
    from qkv.runs.prune import Pruned
    from qkv.runs.shrink import Shrunk

SHOWN = 2  # scores of a candidate


def pruned_table(found: Pruned) -> str:
    """Format a model before and after, what was removed, and who can read the folder."""
    after = [("pruned", found.pruned), *([("healed", found.healed)] if found.healed is not None else [])]
    lines = [f"dropped {_listed(which)}{_of(name)}" for name, which in found.layers.items()]
    lines += [f"{found.tokens:,} tokens removed"] if found.tokens else []
    if found.pruned.speed is not None:
        lines.append(f"(one text at a time; energy: {found.pruned.speed.power})")
    else:
        lines.append("give --data FILE with correct answers for quality and speed")
    read = "transformers reads it" if not found.note else f"transformers cannot read it: {found.note}"
    lines.append(f"{found.folder}: stored as {found.stored_as}; {read}")
    return f"{_beside([('before', found.before), *after])}\n\n" + "\n".join(lines)


def shrunk_table(found: Shrunk) -> str:
    """Format the candidates, a line each, and which one was written."""
    first = next(iter(found.figures.values()))
    names = list(first.scores)[:SHOWN]
    rows = [["", *names, "points", "MB", "ms", "per second", "J"]]
    for row in found.rows:
        figures = found.figures[row.name]
        assert figures.speed is not None
        speed = [f"{row.milliseconds:.3g}", f"{figures.speed.per_second:,.0f}", f"{figures.speed.joules:.3g}"]
        scores = [number(figures.scores[name]) for name in names]
        rows.append([row.name, *scores, f"{0.0 - row.lost:+.2f}", f"{row.megabytes:.3g}", *speed])
    lines = [f"{name}: not possible: {reason}" for name, reason in found.impossible.items()]
    assert first.speed is not None
    lines.append(
        f"(scores on {found.about}; ms and J of one answer, per second with all at once; energy: {first.speed.power})"
    )
    lines += [found.told()] if found.met else []
    lines.append(f"table and picture: {found.folder}/shrink.json, {found.folder}/frontier.svg")
    return f"{columns(rows)}\n\n" + "\n".join(lines)


def _beside(several: Sequence[tuple[str, Figures]]) -> str:
    """Format the figures of models side by side."""
    figures = [one for _, one in several]
    rows = [["", *(name for name, _ in several)]]
    rows += [[name, *(number(one.scores[name]) for one in figures)] for name in figures[0].scores]
    rows.append(["parameters", *(f"{one.parameters:,}" for one in figures)])
    rows.append(["megabytes", *(f"{one.megabytes:.1f}" for one in figures)])
    speeds = [one.speed for one in figures if one.speed is not None]
    if len(speeds) == len(figures):
        rows.append(["ms per answer", *(f"{one.milliseconds:.3g}" for one in speeds)])
        rows.append(["answers per second, batched", *(f"{one.per_second:,.0f}" for one in speeds)])
        rows.append(["joules per answer", *(f"{one.joules:.3g}" for one in speeds)])
    return columns(rows)


def _listed(layers: Sequence[int]) -> str:
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def _of(stack: str) -> str:
    return "" if stack == "stack" else f" of the {stack}"
