"""The picture of a comparison: the score by variant, or over the length if longer inputs are scored."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qkv.evaluation.report import number
from qkv.insight.chart import Line, Panel, charts, dots

if TYPE_CHECKING:
    from qkv.runs.comparison import Compared

FAR = 5.0  # times the best: a worse score is named and not drawn, so that the others can be told apart


def picture(compared: Compared) -> str:
    """Draw a comparison as a self-contained SVG."""
    better = "lower is better" if compared.lower_is_better else "higher is better"
    seeds = f"{len(compared.seeds)} seeds" if len(compared.seeds) > 1 else f"seed {compared.seeds[0]}"
    title = f"{compared.name}: {compared.metric}, {seeds}, {better}"
    if not compared.lengths:
        rows = [(row.name, row.of("value").values) for row in compared.rows]
        return dots(rows, title=title, across=compared.metric)
    lines, left_out = [], []
    firsts = [row.longer(compared.lengths[0]) for row in compared.rows]
    best = min((found.mean for found in firsts if found.values), default=math.inf)
    for row in compared.rows:
        several = [(float(times), row.longer(times)) for times in compared.lengths]
        points = [(times, found.mean) for times, found in several if found.values]
        if compared.lower_is_better and points and min(value for _, value in points) > FAR * best:
            left_out.append(f"{row.name} ({number(points[0][1])})")
            continue
        spread = [
            (times, found.mean - found.deviation, found.mean + found.deviation)
            for times, found in several
            if found.deviation is not None
        ]
        lines.append(Line(row.name, points, spread))
    across = "length of the input, in lengths of training"
    panel = Panel("", lines, across, compared.metric, log_x=True, width=620, height=420)
    ends = [row.name for row in compared.rows if not all(row.longer(times).values for times in compared.lengths)]
    notes = [f"{', '.join(ends)}: positions end at the length of training"] if ends else []
    notes += [f"too far away to be drawn: {', '.join(left_out)}"] if left_out else []
    return charts([panel], title=title, notes=notes)
