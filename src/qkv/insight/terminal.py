"""Attention in the terminal: a row per query token, a column per key token, darker for more weight."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import combining, normalize

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text
from torch import Tensor

from qkv.common.errors import UsageError
from qkv.insight.lens import Lens

SHADES = " .:-=+*#%@"  # from nothing to all
LONGEST_LABEL = 16


def heatmap(weights: Tensor, rows: Sequence[str], columns: Sequence[str], *, colour: bool = True) -> Group:
    """Draw one attention matrix.

    Args:
        weights: Shape: [L, S].
        rows: the L query tokens.
        columns: the S key tokens, written downwards above their columns.
        colour: draw shaded cells with the weight in percent; otherwise plain ASCII characters.
    """
    values = table(weights, rows, columns)
    names = [label(name) for name in rows]
    width, cell = max(map(cell_len, names)), _shaded if colour else _signed
    size = cell(0.0).cell_len
    lines = [
        Text(" " * width + "".join(" " * (size - cell_len(sign)) + sign for sign in line))
        for line in _upright([label(name) for name in columns])
    ]
    for name, row in zip(names, values, strict=True):
        lines.append(Text.assemble(" " * (width - cell_len(name)) + name, *map(cell, row)))
    drawn = Text("\n").join(lines)
    drawn.no_wrap, drawn.overflow = True, "ignore"  # a wrapped line would break the columns
    return Group(drawn)  # a bare text would be joined with others by print, and broken


def width_of(rows: Sequence[str], columns: Sequence[str], *, colour: bool = True) -> int:
    """Return how many columns of a terminal a heatmap takes."""
    cell = _shaded(0.0) if colour else _signed(0.0)
    return max(cell_len(label(name)) for name in rows) + len(columns) * cell.cell_len


def ranking(
    weights: Tensor, rows: Sequence[str], columns: Sequence[str], *, colour: bool = True, most: int = 5
) -> Group:
    """List the largest weights of each row, for a matrix that does not fit on the screen.

    Args:
        weights: Shape: [L, S].
        rows: the L query tokens.
        columns: the S key tokens.
        colour: print names in bold.
        most: weights of each row.
    """
    values = table(weights, rows, columns)
    names = [label(name) for name in columns]
    width = max(cell_len(label(name)) for name in rows)
    lines = []
    for name, row in zip(map(label, rows), values, strict=True):
        best = sorted(range(len(row)), key=lambda column: -row[column])[:most]
        told = ", ".join(f"{names[column]} {row[column]:.0%}" for column in best if row[column] >= 0.005)
        space = " " * (width - cell_len(name))
        lines.append(Text.assemble(space, (name, "bold" if colour else ""), "  ", told))
    return Group(*lines)


def answers(lens: Lens, *, most: int = 3, best: int = 3) -> Group:
    """List what each layer would answer at the places where the right answer is not known.

    Args:
        lens: the answers of each layer.
        most: places to list.
        best: answers of each layer.
    """
    open_places = [place for place, wanted in enumerate(lens.wanted) if wanted is None]
    width = max(map(len, lens.layers))
    lines = []
    for place in open_places[-most:]:
        lines.append(Text(f"answer, {label(lens.places[place], longest=40)}:", style="bold"))
        for layer, choices in zip(lens.layers, lens.choices[place], strict=True):
            told = ", ".join(f"{label(name)} {score:.1%}" for name, score in choices[:best])
            lines.append(Text(f"  {layer:<{width}}  {told}"))
    return Group(*lines)


def table(weights: Tensor, rows: Sequence[str], columns: Sequence[str]) -> list[list[float]]:
    """Check that a matrix has a label for each row and column, and return its numbers."""
    if tuple(weights.shape) != (len(rows), len(columns)) or not weights.numel():
        given = f"{list(weights.shape)} with {len(rows)} rows and {len(columns)} columns named"
        raise UsageError(f"a heatmap takes weights [L, S] of one head and a name for each row and column; got {given}")
    if not weights.isfinite().all():
        raise UsageError("a heatmap takes finite weights, got NaN or infinity")
    return weights.detach().float().clamp(0, 1).tolist()


def label(name: str, *, longest: int = LONGEST_LABEL) -> str:
    """Make a token readable on one line: show spaces at its ends, drop invisible characters, cut long tokens."""
    inside = normalize("NFC", name.strip(" "))
    before, after = len(name) - len(name.lstrip(" ")), len(name) - len(name.rstrip(" "))
    signs = ("·" if sign.isspace() and sign != " " else sign for sign in inside if _has_shape(sign))
    shown = "·" * before + "".join(signs) + "·" * after * bool(inside) or "·"
    return shown if cell_len(shown) <= longest else set_cell_size(shown, longest - 1).rstrip() + "…"


def _has_shape(sign: str) -> bool:
    return sign.isspace() or sign.isprintable()


def _upright(names: Sequence[str]) -> list[list[str]]:
    """Rotate names to be written above their columns: one list of characters per line, from the top."""
    upright = [_signs(name) for name in names]
    height = max(map(len, upright))
    return [list(line) for line in zip(*([" "] * (height - len(signs)) + signs for signs in upright), strict=True)]


def _signs(name: str) -> list[str]:
    """Split a name into characters; a combining accent stays with its letter."""
    signs: list[str] = []
    for sign in name:
        if combining(sign) and signs:
            signs[-1] += sign
        else:
            signs.append(sign)
    return signs


def _signed(value: float) -> Text:
    """Draw a cell as one character."""
    return Text(" " + SHADES[round(value * (len(SHADES) - 1))])


def _shaded(value: float) -> Text:
    """Shade a cell and write the weight in percent."""
    return shade(value, f"{100 * value:3.0f}" if value >= 0.005 else "   ")


def shade(value: float, shown: str) -> Text:
    """Shade a cell from pale to deep blue by the square root of its value, so that 10 % is still visible."""
    depth = value**0.5
    red, green, blue = (round(pale + (deep - pale) * depth) for pale, deep in ((235, 8), (240, 48), (247, 107)))
    ink = "white" if depth > 0.55 else "black"
    return Text(shown, f"{ink} on rgb({red},{green},{blue})")
