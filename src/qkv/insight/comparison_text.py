"""A comparison of two looks for the terminal: a table of distances, and the answers of both models."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from qkv.common.terminal import one_line
from qkv.insight.lens import Lens
from qkv.insight.look import TITLES
from qkv.insight.look_comparison import LookComparison
from qkv.insight.terminal import label, shade

MOST = 5  # heads that are named
PLACES, BEST = 3, 3  # answers


def comparison_text(found: LookComparison, name: str | None, *, colour: bool) -> Group:
    """Draw the distances of one part, the heads that are furthest away, and the answers."""
    part = found.part(name)
    kind = next(key for key, one in found.parts.items() if one is part)
    other = one_line(found.other.model)
    of = f"from the same head of {other}" if part.moved is not None else f"from the most similar head of {other}"
    lines = [Text(f"{TITLES[kind]}: distance of each head {of}, in bits (0: the same attention, 1: none in common)")]
    layers, heads = part.distances.shape
    lines.append(Text("layer" + "".join(f"{head:>6}" for head in range(heads)), style="bold"))
    for layer, row in enumerate(part.distances.tolist()):
        lines.append(Text.assemble(f"{layer:>5}", *(_cell(value, colour) for value in row)))
    for layer, head in part.most(min(MOST, layers * heads)):
        near = part.where[layer][head]
        told = f"layer {layer}, head {head}: {float(part.distances[layer, head]):.2f}"
        least = f"{float(part.nearest[layer, head]):.2f}"
        lines.append(Text(f"{told}; most similar in {other}: layer {near[0]}, head {near[1]} ({least})"))
    return Group(*lines, *_answers(found))


def _cell(value: float, colour: bool) -> Text:
    shown = f"{value:6.2f}"
    return shade(value, shown) if colour else Text(shown)


def _answers(found: LookComparison) -> list[Text]:
    """List what both models answer, place by place if they answer at the same places."""
    asked = [(one_line(one.model), one.lens) for one in (found.look, found.other) if one.lens is not None]
    width = max((len(name) for name, _ in asked), default=0)
    if len(asked) == 2 and asked[0][1].places == asked[1][1].places:
        first = asked[0][1]
        unknown = [place for place, wanted in enumerate(first.wanted) if wanted is None]
        groups = [(place, asked) for place in (unknown or list(range(len(first.places))))[-PLACES:]]
    else:
        groups = [(len(lens.places) - 1, [(name, lens)]) for name, lens in asked]
    lines = []
    for place, some in groups:
        lines.append(Text(f"answer, {label(some[0][1].places[place], longest=40)}:", style="bold"))
        lines += [Text(f"  {name:<{width}}  {_told(lens, place)}") for name, lens in some]
    return lines


def _told(lens: Lens, place: int) -> str:
    return ", ".join(f"{label(name)} {score:.1%}" for name, score in lens.choices[place][-1][:BEST])
