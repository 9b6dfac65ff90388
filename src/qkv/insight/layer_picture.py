"""The picture of `qkv compare layers`: time and memory over length and width, on logarithmic axes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from qkv.common import disk
from qkv.insight.chart import Line, Panel, charts
from qkv.insight.layer_costs import LayerCost, LayerCosts, Points

MIB = 2**20


def draw(found: LayerCosts) -> str:
    """Draw the costs as a self-contained SVG."""
    sizes, layers = found.sizes, found.layers

    def panel(title: str, across: str, up: str, points: Sequence[Points], unit: float) -> Panel:
        lines = [
            Line(layer.name, [(float(size), cost * unit) for size, cost in several])
            for layer, several in zip(layers, points, strict=True)
        ]
        return Panel(title, lines, across, up, log_x=True, log_y=True)

    n, d = "length n", "width d"
    panels = [
        panel(f"time over length, d = {sizes.dim}", n, "ms", [layer.seconds_n for layer in layers], 1000.0),
        panel(f"time over width, n = {sizes.length}", d, "ms", [layer.seconds_d for layer in layers], 1000.0),
        panel(f"memory over length, d = {sizes.dim}", n, "MiB", [layer.bytes_n for layer in layers], 1 / MIB),
        panel(f"memory over width, n = {sizes.length}", d, "MiB", [layer.bytes_d for layer in layers], 1 / MIB),
    ]
    return charts(panels, title=f"What a layer costs: one sequence, forward pass, {found.device}", notes=_notes(layers))


def save(found: LayerCosts, folder: str) -> Path:
    """Write the numbers (layers.json) and the picture (layers.svg) into a folder; return the picture's path."""
    place = disk.plain_folder(Path(folder))
    place.mkdir(parents=True, exist_ok=True)
    disk.replace_file(place / "layers.json", json.dumps(found.to_dict(), indent=2).encode() + b"\n")
    disk.replace_file(place / "layers.svg", draw(found).encode())
    return Path(folder) / "layers.svg"


def _notes(layers: Sequence[LayerCost]) -> list[str]:
    told = (f"{one.name} {one.exponents['time_n']:.2f} and {one.exponents['time_d']:.2f}" for one in layers)
    parts = list(told)
    half = (len(parts) + 1) // 2
    return ["Measured exponents of time in n and in d: " + "; ".join(parts[:half]) + ";", "; ".join(parts[half:]) + "."]
