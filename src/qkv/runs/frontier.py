"""The picture of `qkv shrink`: the score of each candidate over its time and its size, and the frontier."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qkv.insight.chart import Line, Panel, charts
from qkv.runs.targets import MB, MS, Target, frontier

if TYPE_CHECKING:
    from qkv.runs.shrink import Shrunk


def picture(found: Shrunk) -> str:
    """Draw what was measured as a self-contained SVG."""
    wanted = " and ".join(map(str, found.targets))
    chosen = f"{found.choice.row.name} {'meets' if found.met else 'comes nearest to'} {wanted}"
    panels = [_panel(found, MS, "ms per answer"), _panel(found, MB, "MB of weights")]
    notes = [f"{found.metric} of {found.about}; on the frontier, no other candidate is better in both"]
    return charts(panels, title=chosen, notes=notes)


def _panel(found: Shrunk, unit: str, across: str) -> Panel:
    """Draw one dot for each candidate, the frontier, and the limits that lie among the dots."""
    scores = {row.name: found.figures[row.name].scores[found.metric] for row in found.rows}
    cost = Target(unit, 0).value
    best = [(cost(row), scores[row.name]) for row in frontier(found.rows, unit)]
    # the frontier comes first, so that the dots of the candidates lie on top of it
    lines = [Line("frontier", best), *(Line(row.name, [(cost(row), scores[row.name])]) for row in found.rows)]
    known = {score for score in scores.values() if math.isfinite(score)}
    most = max(map(cost, found.rows))
    for target in found.targets:
        if target.unit == unit and target.limit <= most and len(known) > 1:
            lines.append(Line(f"at most {target}", [(target.limit, min(known)), (target.limit, max(known))]))
    title = f"{found.metric} and {'speed' if unit == MS else 'size'}"
    return Panel(title, lines, across, found.metric)
