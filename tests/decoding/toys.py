"""A model small enough to ask for everything: the scores after each history are drawn from a seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.decoding.hypothesis import Hypothesis

END = 0


class Toy:
    """A stepper whose scores depend on the source's number and on all tokens read; it checks how it is used."""

    device = torch.device("cpu")

    def __init__(self, sources: Sequence[int], vocab: int, *, sharp: float = 1.5) -> None:
        self.vocab, self.sharp = vocab, sharp
        self.rows: list[tuple[int, ...]] = [(source,) for source in sources]
        self.place = list(range(len(sources)))  # the source each row belongs to
        self.read = 0  # tokens read, over all rows

    def step(self, ids: Tensor) -> Tensor:
        assert ids.shape == (len(self.rows),)
        self.read += len(self.rows)
        self.rows = [(*row, token) for row, token in zip(self.rows, ids.tolist(), strict=True)]
        return torch.stack([self.scores(row) for row in self.rows])

    def scores(self, row: tuple[int, ...]) -> Tensor:
        draw = random.Random(str(row))
        return torch.tensor([draw.gauss(0, self.sharp) for _ in range(self.vocab)])

    def best(self, ids: Tensor, count: int) -> None:
        del ids, count

    def fixed(self, beams: int, longest: int) -> None:
        del beams, longest

    def reorder(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]
        self.place = [self.place[row] for row in rows.tolist()]
        assert self.place == sorted(self.place), "rows of one source lie together, in the order of the sources"

    def log_probs(self, source: int, first: int, ids: Sequence[int]) -> list[float]:
        """Score an answer token by token."""
        row, found = (source, first), []
        for token in ids:
            found.append(self.scores(row).log_softmax(-1)[token].item())
            row = (*row, token)
        return found


def every_hypothesis(toy: Toy, source: int, first: int, limit: int, alpha: float) -> list[Hypothesis]:
    """Everything that can be said in `limit` tokens, best first."""
    words = [token for token in range(toy.vocab) if token != END]
    found = []
    for length in range(limit + 1):
        for ids in itertools.product(words, repeat=length):
            said = list(ids) if length == limit else [*ids, END]
            scores = toy.log_probs(source, first, said)
            found.append(Hypothesis(list(ids), scores, sum(scores) / len(said) ** alpha, length < limit))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
