"""The picture of `qkv latency`: time over length for each batch size, and throughput over batch size."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qkv.insight.chart import Line, Panel, charts

if TYPE_CHECKING:
    from qkv.predict.latency.result import Latency, Timing

WIDTH = 330


def picture(found: Latency) -> str:
    """Draw a measurement as a self-contained SVG."""
    batches = list(dict.fromkeys(one.batch for one in found.timings))
    lengths = list(dict.fromkeys(one.length for one in found.timings))
    if lengths == [None]:  # images
        panels = [_times(found, "time of a call", "batch", lambda one: one.batch), _rates(found, "", None)]
    else:
        panels = [_times(found, f"time of a call, batch {n}", "tokens", lambda one: one.length, n) for n in batches]
        panels += [_rates(found, f", {n} tokens", n) for n in lengths]
    where = f"{found.device}, {found.threads} thread{'s' if found.threads > 1 else ''}"
    notes = ["Points are medians, and bars end at the 99th percentile."]
    told = [f"{one.name} {one.agreement:.4f}" for one in found.engines if not one.exact and one.agreement is not None]
    notes += [f"Agreement with float32 ({found.agreement_of}): {', '.join(told)}."] if told else []
    title = f"{found.model}: {found.verb} on {where}"
    return charts(panels, title=title, notes=notes, columns=max(2, len(batches) if lengths != [None] else 2))


def _times(
    found: Latency, title: str, across: str, place: Callable[[Timing], int | None], batch: int | None = None
) -> Panel:
    """Draw the milliseconds of a call."""
    lines = []
    for side in found.engines:
        some = [one for one in found.timings if one.engine == side.name and batch in (None, one.batch)]
        points = [(float(place(one) or 0), one.p50_ms) for one in some]
        spread = [(float(place(one) or 0), one.p50_ms, one.p99_ms) for one in some]
        lines.append(Line(side.name, points, spread))
    return Panel(title, lines, across, "ms", log_x=True, log_y=True, width=WIDTH)


def _rates(found: Latency, title: str, length: int | None) -> Panel:
    """Draw how many inputs are answered in a second."""
    lines = [
        Line(
            side.name,
            [
                (float(one.batch), one.per_second)
                for one in found.timings
                if (one.engine, one.length) == (side.name, length)
            ],
        )
        for side in found.engines
    ]
    return Panel(f"throughput{title}", lines, "batch", "per second", log_x=True, log_y=True, width=WIDTH)
