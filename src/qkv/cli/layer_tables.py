"""The output of `qkv compare layers` as text."""

from __future__ import annotations

import math

from qkv.cli.run_tables import columns
from qkv.insight.layer_costs import LayerCosts


def layer_table(found: LayerCosts) -> str:
    """Format theory beside measurement, then the measured times."""
    sizes = found.sizes
    head = ["layer", "operations", "time ~ n^", "time ~ d^", "memory ~ n^", "memory ~ d^"]
    rows = [[*head, "sequential", "counted", "longest path", "counted"]]
    for layer in found.layers:
        grown = [_number(layer.exponents[name]) for name in ("time_n", "time_d", "memory_n", "memory_d")]
        for place in (0, 1):
            grown[place] += f" ({layer.theory[place]:g})"
        counts = [layer.sequential, f"{layer.steps:,}", layer.path, f"{layer.hops:,}"]
        rows.append([layer.name, layer.operations, *grown, *counts])
    times = [["milliseconds", *(f"n={n}" for n in sizes.lengths), *(f"d={d}" for d in sizes.dims)]]
    times += [[one.name, *(f"{1000 * s:.3g}" for _, s in (*one.seconds_n, *one.seconds_d))] for one in found.layers]
    return "\n\n".join([columns(rows), "\n".join(_notes(found)), columns(times)])


def _notes(found: LayerCosts) -> list[str]:
    sizes = found.sizes
    return [
        f"Forward pass of one sequence on {found.device}; n grows at d={sizes.dim}, d grows at n={sizes.length}.",
        "Exponents are slopes on log-log axes; in brackets, those of the leading terms in theory. For small sizes, the",
        "start of an operation takes most of its time and lowers them. Memory is the peak without weights and input:",
        f"fused attention does not store its n² weights. Steps and hops are counted at n={sizes.reach} tokens.",
    ]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"
