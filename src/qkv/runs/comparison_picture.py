"""The picture of a comparison: the score by variant, or over the length if longer inputs are scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qkv.insight.chart import Line, Panel, charts, dots

if TYPE_CHECKING:
    from qkv.runs.comparison import Compared

ACROSS = 20.0  # a factor: scores that lie farther apart are drawn over a logarithmic axis


def picture(compared: Compared) -> str:
    """Draw a comparison as a self-contained SVG."""
    better = "lower is better" if compared.lower_is_better else "higher is better"
    seeds = f"{len(compared.seeds)} seeds" if len(compared.seeds) > 1 else f"seed {compared.seeds[0]}"
    title = f"{compared.name}: {compared.metric}, {seeds}, {better}"
    if not compared.lengths:
        rows = [(row.name, row.of("value").values) for row in compared.rows]
        return dots(rows, title=title, across=compared.metric)
    lines, values = [], list[float]()
    for row in compared.rows:
        several = [(float(times), row.longer(times)) for times in compared.lengths]
        points = [(times, found.mean) for times, found in several if found.values]
        spread = [
            (times, found.mean - found.deviation, found.mean + found.deviation)
            for times, found in several
            if found.deviation is not None
        ]
        lines.append(Line(row.name, points, spread))
        values += [value for _, value in points]
    far = min(values, default=1.0) > 0 and max(values, default=1.0) > ACROSS * min(values, default=1.0)
    panel = Panel("", lines, "length of the input, in lengths of training", compared.metric, log_x=True, log_y=far)
    ends = [row.name for row in compared.rows if not all(row.longer(times).values for times in compared.lengths)]
    notes = [f"{', '.join(ends)}: positions end at the length of training"] if ends else []
    return charts([panel], title=title, notes=notes)
