"""Two looks at the same input side by side: how far each head moved, and which head of the other model is most similar.

Distances are Jensen-Shannon divergences in bits, averaged over the tokens that attend (Clark et al. 2019 compare heads
this way): 0 for the same attention, 1 for attention to entirely different tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from qkv.common import disk
from qkv.common.errors import UsageError, system_errors
from qkv.insight.look import TITLES, Look, Part

if TYPE_CHECKING:
    from rich.console import Group

PRODUCTS = 200_000_000  # numbers to compare when the most similar head is searched; beyond that, on fewer rows
FEWEST = 4  # rows

Head = tuple[int, int]  # layer and head


@dataclass(frozen=True, eq=False)
class PartComparison:
    """One kind of attention in both models.

    Attributes:
        moved: the divergence of each head from the same head of the other model; None if the two models have different
            numbers of layers or heads. Shape: [layers, heads].
        nearest: the divergence of each head from the most similar head of the other model. Shape: [layers, heads].
        where: the layer and head of that most similar head, for each layer and head.
    """

    moved: Tensor | None
    nearest: Tensor
    where: list[list[Head]]

    @property
    def distances(self) -> Tensor:
        """How far each head is: from the same head if both models have it, or else from the most similar one."""
        return self.nearest if self.moved is None else self.moved

    def most(self, number: int) -> list[Head]:
        """Return the heads that are furthest away, the furthest first."""
        heads = self.distances.shape[1]
        order = self.distances.flatten().sort(descending=True, stable=True).indices[:number]
        return [divmod(place, heads) for place in order.tolist()]


@dataclass(frozen=True, eq=False)
class LookComparison:
    """Two looks at the same input. Written by `Look.compare`.

    Attributes:
        look: the first one.
        other: the second one, such as the same model before fine-tuning.
        parts: the kinds of attention that both models have.
    """

    look: Look
    other: Look
    parts: dict[str, PartComparison]

    @staticmethod
    def of(look: Look, other: Look) -> LookComparison:
        """Compare two looks at the same input."""
        common = [name for name in look.parts if name in other.parts]
        if not common:
            first, second = (", ".join(one.parts) for one in (look, other))
            raise UsageError(f"{look.model} has attention of the kind {first}, {other.model} has {second}")
        for name in common:
            _same_tokens(look, other, name)
        return LookComparison(look, other, {name: _compared(look.parts[name], other.parts[name]) for name in common})

    @property
    def about(self) -> str:
        """Both models."""
        return f"{self.look.model} beside {self.other.model}"

    def part(self, name: str | None = None) -> PartComparison:
        """Return a part by name; by default the main one."""
        name = self.look.main if name is None and self.look.main in self.parts else name
        if name is not None and name not in self.parts:
            self.look.part(name), self.other.part(name)  # the error names the model's own parts
        return self.parts[next(iter(self.parts)) if name is None else name]

    def table(self, name: str | None = None, *, colour: bool = True) -> Group:
        """Draw the distance of each head of one part for the terminal, and name the heads that moved most."""
        from qkv.insight.comparison_text import comparison_text

        return comparison_text(self, name, colour=colour)

    def html(self, *, most: int | None = None) -> str:
        """Return a page with the attention of both models; see `Look.html`."""
        from qkv.insight.html import CELLS, page

        return page(self.look, CELLS if most is None else most, self)

    @system_errors()
    def save(self, file: str | Path) -> Path:
        """Write the page."""
        disk.replace_file(path := Path(file), self.html().encode())
        return path

    def to_dict(self) -> dict[str, Any]:
        """Return the distances and both models' answers for JSON."""
        answers = [None if one.lens is None else one.lens.to_dict() for one in (self.look, self.other)]
        return {
            "models": [self.look.model, self.other.model],
            "parts": {
                name: {
                    "moved": None if one.moved is None else _rounded(one.moved),
                    "nearest": _rounded(one.nearest),
                    "nearest_head": one.where,
                }
                for name, one in self.parts.items()
            },
            "answers": answers,
            "notes": self.look.notes,
        }

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own."""
        from qkv.insight.html import framed

        return framed(self.look, self)

    def __repr__(self) -> str:
        """Say what was compared."""
        return f"<qkv.LookComparison: {self.about}; save('look.html') writes a page with both>"


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of distributions, in bits. Shape: [..., S], [..., S] -> [...]."""
    entropy = torch.special.entr
    found = entropy((p + q) / 2).sum(-1) - (entropy(p).sum(-1) + entropy(q).sum(-1)) / 2
    return (found / torch.log(found.new_tensor(2.0))).clamp(0, 1)


def _same_tokens(look: Look, other: Look, name: str) -> None:
    first, second = look.parts[name], other.parts[name]
    if first.rows == second.rows and first.columns == second.columns:
        return
    sizes = f"{len(first.columns)} and {len(second.columns)}"
    raise UsageError(
        f"{look.model} and {other.model} cut this input into different tokens ({sizes} in the {TITLES[name]}): their "
        "attention cannot be compared, but `qkv layers --compare` compares the layers of any two models"
    )


def _compared(part: Part, other: Part) -> PartComparison:
    same = (part.num_layers, part.num_heads) == (other.num_layers, other.num_heads)
    moved = None
    if same:
        layers = range(part.num_layers)
        moved = torch.stack([_same_heads(part, other, layer) for layer in layers])
    nearest, where = _most_similar(part, other)
    return PartComparison(moved, nearest, where)


def _same_heads(part: Part, other: Part, layer: int) -> Tensor:
    """Return how far the heads of one layer are from the same heads of the other model. Shape: [heads]."""
    found = [divergence(part.weights(layer, head), other.weights(layer, head)) for head in range(part.num_heads)]
    return torch.stack([row_L.mean() for row_L in found]).cpu()


def _most_similar(part: Part, other: Part) -> tuple[Tensor, list[list[Head]]]:
    """Return each head's distance from the most similar head of the other model, and which one that is."""
    pairs = part.num_layers * part.num_heads * other.num_layers * other.num_heads
    room = max(FEWEST, PRODUCTS // (pairs * len(part.columns)))
    rows = torch.linspace(0, len(part.rows) - 1, min(room, len(part.rows))).round().long()
    theirs = _rows_of_heads(other, rows)
    least, where = [], []
    for weights_LS in _rows_of_heads(part, rows):
        found = divergence(weights_LS, theirs).mean(-1)
        place = int(found.argmin())
        least.append(found[place])
        where.append(divmod(place, other.num_heads))
    heads = part.num_heads
    return (
        torch.stack(least).view(part.num_layers, heads),
        [where[start : start + heads] for start in range(0, len(where), heads)],
    )


def _rows_of_heads(part: Part, rows: Tensor) -> Tensor:
    """Return some rows of the weights of every head of every layer. Shape: [layers · heads, rows, S]."""
    layers, heads = range(part.num_layers), range(part.num_heads)
    return torch.stack([part.weights(layer, head).cpu()[rows] for layer in layers for head in heads])


def _rounded(values: Tensor) -> list[list[float]]:
    return [[round(value, 6) for value in row] for row in values.tolist()]
