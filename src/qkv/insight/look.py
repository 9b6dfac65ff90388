"""What a look at one input gives: the attention of every layer and head, on demand, and what the model answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from qkv.common import disk
from qkv.common.errors import UsageError, system_errors, unknown
from qkv.insight.capture import one_head, weights_of, weights_of_steps
from qkv.insight.lens import Lens
from qkv.insight.rollout import rollout
from qkv.nn.kernels import Call
from qkv.nn.recurrent import Step

if TYPE_CHECKING:
    from rich.console import Group

    from qkv.insight.look_comparison import LookComparison

TITLES = {
    "encoder": "encoder",
    "decoder": "decoder",
    "cross": "decoder over the source",
}
KINDS = ("html", "svg", "png")
ROLLOUT = "rollout"  # in the place of a layer: all of them multiplied


@dataclass(frozen=True, eq=False)
class Part:
    """One kind of attention: an encoder's, a decoder's own, or a decoder's over the source ("cross").

    Attributes:
        rows: the tokens that attend.
        columns: the tokens that they attend to.
        layers: what each layer computed; weights are computed from it when you ask for them.
        order: which token each row of a layer with windows is (see `nn/windows.py`).
    """

    rows: list[str]
    columns: list[str]
    layers: list[list[Call] | list[Step]]
    order: list[int] | None = None

    @property
    def num_layers(self) -> int:
        """Layers."""
        return len(self.layers)

    @property
    def num_heads(self) -> int:
        """Heads of each layer; a recurrent decoder has one."""
        first = self.layers[0][0]
        return first.q.shape[1] if isinstance(first, Call) else 1

    def call(self, layer: int) -> Call | None:
        """Return queries, keys and scale of a layer, or None if they are not one product of q and k."""
        found = self.layers[self.check("layer", layer)]
        if len(found) > 1 or not isinstance(found[0], Call) or found[0].queries.num_sequences > 1:
            return None
        return found[0]

    def weights(self, layer: int, head: int | None = None) -> Tensor:
        """Compute the weights of a layer or of one head. Shape: [N, L, S], or [L, S] of one head."""
        if head is None:
            return torch.stack([self.weights(layer, number) for number in range(self.num_heads)])
        found, head = self.layers[self.check("layer", layer)], self.check("head", head)
        with torch.no_grad():
            calls = [one_head(call, head) for call in found if isinstance(call, Call)]
            steps = [step for step in found if isinstance(step, Step)]
            each = [one[0].float() for one in (weights_of(calls) if calls else weights_of_steps(steps))]
            return each[0] if len(each) == 1 else self._joined(each)

    def _joined(self, windows: list[Tensor]) -> Tensor:
        """Put the windows of a layer back where their tokens are; tokens of two windows have weight 0."""
        back = torch.tensor(self.order, device=windows[0].device).argsort()
        return torch.block_diag(*windows)[back][:, back]

    def check(self, what: str, number: int) -> int:
        """Return the number of a layer or head, counted from 0; negative ones count from the end."""
        count = self.num_layers if what == "layer" else self.num_heads
        if not -count <= number < count:
            raise UsageError(f"there is no {what} {number}: {what}s are numbered from 0 to {count - 1}")
        return number % count


@dataclass(frozen=True, eq=False)
class Picture:
    """What a model of images saw.

    Attributes:
        pixels: from 0 to 255. Shape: [C, height, width], uint8.
        grid: patches in each row and column.
        leading: tokens before the first patch.
    """

    pixels: Tensor
    grid: int
    leading: int


@dataclass(frozen=True, eq=False)
class Look:
    """The attention of one pass, and what the model answers. Written by `Model.look`.

    Attributes:
        model: the model's name.
        family: the model's family.
        parts: the kinds of attention that the model has: encoder, decoder, cross.
        lens: what each layer would answer, if the model has a head that gives words or classes.
        picture: the image, for a model of images.
        texts: what was read.
        notes: what a reader should know.
        written: the model's own translation, if no other was given.
    """

    model: str
    family: str
    parts: dict[str, Part]
    lens: Lens | None = None
    picture: Picture | None = None
    texts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    written: str | None = None

    def part(self, name: str | None = None) -> Part:
        """Return a part by name; by default cross, or the only one."""
        name = self.main if name is None else name
        if name not in self.parts:
            raise unknown("part", name, self.parts)
        return self.parts[name]

    @property
    def main(self) -> str:
        """The part that is shown first."""
        return "cross" if "cross" in self.parts else next(iter(self.parts))

    def usual_layer(self, part: str | None = None) -> int:
        """The layer that is shown first: the last; for cross the one before, which aligns best (Garg et al. 2019)."""
        depth = self.part(part).num_layers
        return max(0, depth - 2) if (part or self.main) == "cross" else depth - 1

    def weights(self, layer: int, head: int | None = None, part: str | None = None) -> Tensor:
        """Compute the weights of a layer or of one head. Shape: [N, L, S], or [L, S] of one head."""
        return self.part(part).weights(layer, head)

    def map(self, layer: int | str | None = None, head: int | None = None, part: str | None = None) -> Tensor:
        """Compute one matrix: of a head, the mean over the heads of a layer, or "rollout". Shape: [L, S]."""
        if isinstance(layer, str):
            self._check_rollout(layer, head)
            return self.rollout(part)
        found, layer = self.part(part), self.usual_layer(part) if layer is None else layer
        if head is not None:
            return found.weights(layer, head)
        total = found.weights(layer, 0)
        for number in range(1, found.num_heads):  # one at a time: a layer of a long text does not fit into memory
            total += found.weights(layer, number)
        return total / found.num_heads

    def rollout(self, part: str | None = None) -> Tensor:
        """Compute the attention rollout of a self-attention. Shape: [L, L]."""
        name, found = self._own(part)
        # A layer is its mean over the heads: all heads of a long text do not fit into memory.
        return rollout(self.map(layer, part=name).unsqueeze(0) for layer in range(found.num_layers))

    def _own(self, part: str | None) -> tuple[str, Part]:
        """Return a self-attention: by default the first one."""
        name = next(iter(self.parts)) if part is None else part
        found = self.part(name)
        if found.rows is not found.columns:
            raise UsageError("rollout follows self-attention through the layers: name the encoder or the decoder")
        return name, found

    def _check_rollout(self, layer: str, head: int | None) -> None:
        if layer != ROLLOUT:
            raise UsageError(f"layer must be a number or {ROLLOUT}, got {layer!r}")
        if head is not None:
            raise UsageError(f"{ROLLOUT} is over all heads: name no head")

    @property
    def about(self) -> str:
        """The family, and the sizes of each part."""
        sizes = (
            f"{TITLES[name]}: {_count(one.num_layers, 'layer')} of {_count(one.num_heads, 'head')}"
            for name, one in self.parts.items()
        )
        return " · ".join([self.family, *sizes])

    def describe(self, layer: int | str | None = None, head: int | None = None, part: str | None = None) -> str:
        """Say which matrix `map` gives."""
        if isinstance(layer, str):
            self._check_rollout(layer, head)
            return f"{TITLES[self._own(part)[0]]}, {ROLLOUT} through {_count(self._own(part)[1].num_layers, 'layer')}"
        found, layer = self.part(part), self.usual_layer(part) if layer is None else layer
        head = 0 if found.num_heads == 1 and head is None else head
        heads = f"head {found.check('head', head)}" if head is not None else f"mean of {found.num_heads} heads"
        return f"{TITLES[part or self.main]}, layer {found.check('layer', layer)}, {heads}"

    def heatmap(
        self,
        layer: int | str | None = None,
        head: int | None = None,
        part: str | None = None,
        *,
        colour: bool = True,
        width: int | None = None,
    ) -> Group:
        """Draw one matrix for the terminal: print it with rich.

        Args:
            layer: the layer, counted from 0, or "rollout".
            head: the head; None draws the mean over the heads.
            part: encoder, decoder or cross.
            colour: shade the cells; otherwise draw plain characters.
            width: columns of the terminal. A matrix that does not fit becomes a list of each token's largest weights.
        """
        from qkv.insight.terminal import heatmap, ranking, width_of

        found, weights = self._shown(layer, part), self.map(layer, head, part)
        fits = width is None or width_of(found.rows, found.columns, colour=colour) <= width
        return (heatmap if fits else ranking)(weights, found.rows, found.columns, colour=colour)

    def html(self, *, most: int | None = None) -> str:
        """Return the page: one HTML file that needs no network.

        Args:
            most: cells of attention matrices to store; beyond that only some layers are stored in full.
        """
        from qkv.insight.html import CELLS, page

        return page(self, CELLS if most is None else most)

    @system_errors()
    def save(
        self,
        file: str | Path,
        *,
        kind: str | None = None,
        layer: int | str | None = None,
        head: int | None = None,
        part: str | None = None,
    ) -> Path:
        """Write the page (html), or a picture of one matrix (svg, png).

        Args:
            file: the file.
            kind: html, svg or png; None means what the ending of the file says.
            layer: for a picture, the layer, counted from 0, or "rollout".
            head: for a picture, the head; None draws the mean over the heads.
            part: for a picture, encoder, decoder or cross.
        """
        path = Path(file)
        ending = path.suffix.lower().removeprefix(".") if kind is None else kind
        if ending not in KINDS:
            raise UsageError(
                f"{file} must end in {', '.join(f'.{name}' for name in KINDS)}: the ending says what to write"
            )
        disk.replace_file(path, self._written(ending, layer, head, part))
        return path

    def _shown(self, layer: int | str | None, part: str | None) -> Part:
        return self._own(part)[1] if isinstance(layer, str) else self.part(part)

    def _written(self, kind: str, layer: int | str | None, head: int | None, part: str | None) -> bytes:
        if kind == "html":
            return self.html().encode()
        found = self._shown(layer, part)
        drawn = (self.map(layer, head, part), found.rows, found.columns, self.describe(layer, head, part))
        if kind == "svg":
            from qkv.insight.svg import svg

            return svg(*drawn).encode()
        from qkv.insight.png import png

        return png(*drawn)

    def compare(self, other: Look) -> LookComparison:
        """Compare with another model's look at the same input, such as the same model's before fine-tuning."""
        from qkv.insight.look_comparison import LookComparison

        return LookComparison.of(self, other)

    def to_dict(
        self, layer: int | str | None = None, head: int | None = None, part: str | None = None
    ) -> dict[str, Any]:
        """Return one matrix and the answers for JSON."""
        found, layer = self._shown(layer, part), self.usual_layer(part) if layer is None else layer
        return {
            "model": self.model,
            "family": self.family,
            "parts": {name: {"layers": one.num_layers, "heads": one.num_heads} for name, one in self.parts.items()},
            "part": next(name for name, one in self.parts.items() if one is found),
            "layer": layer if isinstance(layer, str) else found.check("layer", layer),
            "head": None if head is None else found.check("head", head),
            "rows": found.rows,
            "columns": found.columns,
            "weights": [[round(value, 6) for value in row] for row in self.map(layer, head, part).tolist()],
            "answers": None if self.lens is None else self.lens.to_dict(),
            "notes": self.notes,
        }

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own."""
        from qkv.insight.html import framed

        return framed(self)

    def __repr__(self) -> str:
        """Say what was read."""
        return f"<qkv.Look: {self.about}; save('look.html') writes a page with all of it>"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
