"""What the hidden state after each layer would already answer: the logit lens (nostalgebraist 2020).

state after layer l ─► final norm ─► head ─► probabilities; after the last layer, this is the model's own answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.nn.tap import Tap

Choice = tuple[str, float]


@dataclass(frozen=True)
class Question:
    """What to ask the states of one sequence.

    Attributes:
        head: the name of the head.
        rows: the rows that it reads.
        places: what each answer is about; one for all rows if the head is over sequences.
        name_of: the name of a class or token.
        size: classes that have names.
        wanted: the class that is right at each place; -1 if that is not known.
        several: whether several classes may hold at once.
    """

    head: str
    rows: list[int]
    places: list[str]
    name_of: Callable[[int], str]
    size: int
    wanted: list[int]
    several: bool = False


@dataclass(frozen=True)
class Lens:
    """The most likely answers of each layer at each place.

    Attributes:
        places: what each answer is about.
        layers: the names of the layers; the last answer is the model's own.
        choices: for each place and layer, names with their probabilities, most likely first.
        wanted: for each place, the right answer and its probability in each layer, or None.
    """

    places: list[str]
    layers: list[str]
    choices: list[list[list[Choice]]]
    wanted: list[tuple[str, list[float]] | None]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the answers for JSON, one object per place."""
        return [
            {
                "place": place,
                "wanted": None if wanted is None else {"name": wanted[0], "by_layer": wanted[1]},
                "layers": {
                    layer: [{"name": name, "score": score} for name, score in best]
                    for layer, best in zip(self.layers, found, strict=True)
                },
            }
            for place, found, wanted in zip(self.places, self.choices, self.wanted, strict=True)
        ]


class States:
    """Records some rows of the states before the first and after each layer of one stack."""

    def __init__(self, stack: nn.Module | None, rows: Sequence[int]) -> None:
        self.found: list[Tensor] = []
        self._tap = getattr(stack, "tap", None)
        self._rows = list(rows)

    def begin(self, tap: Tap, layer: int) -> None:
        """Forget the states of an earlier pass."""
        del layer
        if tap is self._tap:
            self.found = []

    def add(self, tap: Tap, seen: Any) -> None:
        """Keep the rows."""
        if tap is self._tap:
            self.found.append(seen[self._rows].detach())


@torch.no_grad()
def lens(model: Any, norm: Callable[[Tensor], Tensor], states: Sequence[Tensor], asked: Question, top: int) -> Lens:
    """Ask the states of each layer.

    Args:
        model: the model that has the head.
        norm: the norm after the last layer.
        states: the rows of `asked` before the first layer and after each. Shape of each: [rows, D].
        asked: the question.
        top: answers to return at each place.
    """
    layout = Ragged.of([len(asked.rows)], states[0].device)
    found = [_chances(model.logits(Hidden(norm(x), layout), asked.head), asked) for x in states]
    best = [chances.topk(min(top, chances.shape[-1])) for chances in found]
    named = [[asked.name_of(i) for i in row] for one in best for row in one.indices.tolist()]
    scores = [row for one in best for row in one.values.tolist()]
    number = len(asked.places)
    choices = [list(zip(names, row, strict=True)) for names, row in zip(named, scores, strict=True)]
    depth = len(states) - 1
    layers = ["input", *(f"layer {layer}" for layer in range(depth))] if depth else ["answer"]
    return Lens(
        places=asked.places,
        layers=layers,
        choices=[choices[place::number] for place in range(number)],
        wanted=[
            None if right < 0 else (asked.name_of(right), [float(chances[place, right]) for chances in found])
            for place, right in enumerate(asked.wanted)
        ],
    )


def _chances(logits: Tensor, asked: Question) -> Tensor:
    """Turn logits into probabilities. Shape: [places, classes]."""
    scores = logits.float()[:, : asked.size]
    return scores.sigmoid() if asked.several else scores.softmax(-1)
