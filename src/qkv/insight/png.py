"""One attention matrix as a PNG, drawn with matplotlib."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence

from torch import Tensor

from qkv.data.optional import need
from qkv.insight.svg import DEEP
from qkv.insight.svg_text import GROUND, INK
from qkv.insight.terminal import label, table

CELL = 0.3  # inches
NAMED = 80  # tokens on a side; more are too small to be named
DPI = 160


def png(weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str = "") -> bytes:
    """Draw one attention matrix: queries on the left, keys above. Shape of the weights: [L, S]."""
    values = table(weights, rows, columns)
    figures = need("matplotlib.figure", "writing a PNG", "matplotlib")
    colours = need("matplotlib.colors", "writing a PNG", "matplotlib")
    least = (max(3.0, 0.085 * len(title) + 0.4), 2.0)  # inches: the title must fit
    size = [min(max(CELL * len(names) + 1.6, low), 24.0) for names, low in zip((columns, rows), least, strict=True)]
    figure = figures.Figure(figsize=size, dpi=DPI, layout="constrained", facecolor=GROUND)
    axes = figure.add_subplot()
    shades = colours.LinearSegmentedColormap.from_list("weight", [GROUND, DEEP])
    # The root of the weight, so that 10 % is still visible, as everywhere.
    axes.imshow([[value**0.5 for value in row] for row in values], cmap=shades, vmin=0, vmax=1, aspect="auto")
    axes.xaxis.tick_top()
    # Names are text: matplotlib would read dollar signs as mathematics.
    shown = {"parse_math": False, "color": INK, "fontsize": 9}
    _ticks(axes.set_xticks, columns, shown | {"rotation": 50, "ha": "left", "rotation_mode": "anchor"})
    _ticks(axes.set_yticks, rows, shown)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    if title:
        figure.suptitle(title, parse_math=False, color=INK, fontsize=10)
    drawn = io.BytesIO()
    with warnings.catch_warnings():  # a token that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(drawn, format="png", metadata={"Software": None})
    return drawn.getvalue()


def _ticks(place: object, names: Sequence[str], style: dict[str, object]) -> None:
    assert callable(place)
    if len(names) > NAMED:
        place([])
    else:
        place(range(len(names)), [label(name) for name in names], **style)
