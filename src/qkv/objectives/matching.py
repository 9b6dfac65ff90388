"""Matching the layers of a student with layers of its teacher, over ragged rows.

hidden      the squared distance of the states after a layer; a student of another width learns a projection to the
            teacher's (FitNets, Romero et al. 2015, equation 3; TinyBERT, Jiao et al. 2020, equation 8)
attention   how alike the queries of two tokens are, and their keys, and their values, as a distribution over the
            tokens of their sequence. The vectors of all heads are joined and cut into relation heads, so that widths
            and numbers of heads may differ (MiniLMv2, Wang et al. 2021, equations 3 and 4)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from qkv.common.errors import UsageError
from qkv.common.outputs import LossOutput
from qkv.nn.attention import SelfAttention
from qkv.nn.kernels import Call
from qkv.nn.linear import Linear
from qkv.nn.rectangles import rectangles
from qkv.nn.stack import Stack
from qkv.nn.tap import Tap
from qkv.objectives.parts import Losses

PROJECTIONS = "projections"  # the submodule of a student that is trained with it and not stored in its folder


def stacks_of(model: nn.Module) -> dict[str, Stack]:
    """Return the stacks of a model by the name of their module: stack, or encoder and decoder."""
    return {name: module for name, module in model.named_modules() if isinstance(module, Stack)}


class Seen:
    """A recorder of the states and the attention of each layer; of several passes, one after the other."""

    all_rows = True  # the last layer computes every row

    def __init__(self, model: nn.Module) -> None:
        stacks = stacks_of(model)
        self.states: dict[str, dict[int, list[Tensor]]] = {name: {} for name in stacks}
        self.calls: dict[str, dict[int, list[Call]]] = {name: {} for name in stacks}
        self._stacks = {stack.tap: name for name, stack in stacks.items()}
        self._attentions = {
            module.tap: name
            for name, stack in stacks.items()
            for module in stack.modules()
            if isinstance(module, SelfAttention)
        }
        self._layer: dict[Tap, int] = {}

    def begin(self, tap: Tap, layer: int) -> None:
        """Note the layer of an attention; of a stack, that its first state follows."""
        self._layer[tap] = -1 if tap in self._stacks else layer

    def add(self, tap: Tap, seen: Any) -> None:
        """Keep the states after a layer, or the call of an attention."""
        if tap in self._stacks:
            self.states[self._stacks[tap]].setdefault(self._layer[tap], []).append(seen)
            self._layer[tap] += 1
        elif tap in self._attentions:
            self.calls[self._attentions[tap]].setdefault(self._layer[tap], []).append(seen)


@dataclass(frozen=True)
class Matching:
    """Which layers are matched, and how much that counts.

    Attributes:
        hidden: the weight of the states.
        attention: the weight of the relations.
        pairs: a layer of the student and one of the teacher, both from 0, by the name of the stack.
        heads: the number of heads of the teacher's attention, the most that relations have.
    """

    hidden: float
    attention: float
    pairs: Mapping[str, Sequence[tuple[int, int]]]
    heads: Mapping[str, int] = field(default_factory=dict)

    @property
    def weights(self) -> dict[str, float]:
        """The weights of what is matched."""
        both = {"hidden": self.hidden, "attention": self.attention}
        return {name: weight for name, weight in both.items() if weight}

    def __call__(self, mine: Seen, theirs: Seen, model: nn.Module, amount: int) -> Losses:
        """Return the losses of what is matched: sums over rows, each the mean over the matched layers.

        Args:
            mine: what the student computed.
            theirs: what the teacher computed.
            model: the student.
            amount: how much the batch holds, the targets of these losses: its rows or, of images, the images.
        """
        sums, rows = dict.fromkeys(self.weights, torch.tensor(0.0)), 0
        for name, pairs in self.pairs.items():
            project = getattr(model, PROJECTIONS)[name] if name in getattr(model, PROJECTIONS, ()) else nn.Identity()
            for student, teacher in pairs:
                states = list(zip(mine.states[name][student], theirs.states[name][teacher], strict=True))
                calls = zip(mine.calls[name][student], theirs.calls[name][teacher], strict=True)
                found = {}
                if self.hidden:
                    found["hidden"] = [_hidden(project(x), y).sum() for x, y in states]
                if self.attention:
                    found["attention"] = [relations(a, b, self.heads[name]).sum() for a, b in calls]
                for part, losses in found.items():
                    sums[part] = sums[part].to(losses[0].device) + torch.stack(losses).sum() / len(pairs)
            rows += sum(len(x) for x, _ in states)
        return {name: LossOutput(total * amount / max(1, rows), torch.tensor(amount)) for name, total in sums.items()}


def _hidden(mine_TD: Tensor, theirs_TD: Tensor) -> Tensor:
    """Return the mean squared distance of each row. Shape: [T or 2T, D], [T, D] -> [T or 2T]."""
    if len(mine_TD) == 2 * len(theirs_TD):  # R-Drop's two passes
        theirs_TD = theirs_TD.repeat(2, 1)
    if len(mine_TD) != len(theirs_TD):
        raise UsageError(
            f"the teacher has {len(theirs_TD)} rows where the student has {len(mine_TD)}, so their states cannot be "
            "matched: give images of one size and patches of one size, or set distill.hidden=0"
        )
    return (mine_TD.float() - theirs_TD.float()).square().mean(-1)


def relations(mine: Call, theirs: Call, heads: int) -> Tensor:
    """Return KL(teacher ‖ student) of the relations of each row, the sum over queries, keys and values. Shape: [T]."""
    if mine.queries.num_sequences == 2 * theirs.queries.num_sequences:
        raise UsageError("attention relations cannot be matched with R-Drop's two passes: set objective.r_drop=0")
    if mine.queries.host_lengths != theirs.queries.host_lengths or mine.keys is not mine.queries:
        raise UsageError("student and teacher attend over different rows: attention relations cannot be matched")
    rows = mine.q.new_zeros(len(mine.q), dtype=torch.float32)
    for x, y in ((mine.q, theirs.q), (mine.k, theirs.k), (mine.v, theirs.v)):
        number = relation_heads(x.shape[1:].numel(), y.shape[1:].numel(), heads)
        rows = rows + _relation(x.flatten(1), y.flatten(1), number, mine)
    return rows


def relation_heads(mine: int, theirs: int, most: int) -> int:
    """Return the largest number of heads, up to `most`, that divides both widths."""
    common = math.gcd(mine, theirs)
    return max(number for number in range(1, most + 1) if common % number == 0)


def _relation(x_TD: Tensor, y_TD: Tensor, heads: int, call: Call) -> Tensor:
    """Return the divergence of one relation for each row, the mean over heads. Shape: [T, D], [T, E] -> [T]."""
    parts = []
    plan = rectangles(call.queries, call.queries)
    for rectangle in plan:
        inside = torch.arange(rectangle.k_side.length, device=x_TD.device) < rectangle.k_sizes.unsqueeze(-1)
        visible_b1LS = inside[:, None, None, :]
        if call.causal:
            triangle = torch.ones(2 * [rectangle.k_side.length], dtype=torch.bool, device=x_TD.device).tril()
            visible_b1LS = visible_b1LS & triangle
        logs = []
        for rows in (x_TD, y_TD):
            vectors = rectangle.queries(rows.float()).unflatten(-1, (heads, -1)).transpose(1, 2)
            scores = vectors @ vectors.transpose(-1, -2) / math.sqrt(vectors.shape[-1])
            logs.append(scores.masked_fill(~visible_b1LS, -1e4).log_softmax(-1))
        log_p, log_q = logs
        divergence_bL = (log_q.exp() * (log_q - log_p)).sum(-1).mean(1)
        parts.append(rectangle.rows(divergence_bL.unsqueeze(-1)).squeeze(-1))
    return torch.cat(parts)[plan[0].inverse] if len(parts) > 1 else parts[0]


def even_map(student: int, teacher: int) -> tuple[int, ...]:
    """Return the layer of the teacher for each layer of the student: evenly, up to the last one."""
    return tuple(round((layer + 1) * teacher / student) - 1 for layer in range(student))


def add_projections(model: nn.Module, teacher: nn.Module, names: Sequence[str]) -> None:
    """Give a student a projection to the width of its teacher for each stack whose width differs."""
    widths = {name: (width_of(stacks_of(model)[name]), width_of(stacks_of(teacher)[name])) for name in names}
    differ = {name: Linear(*both, bias=False) for name, both in widths.items() if both[0] != both[1]}
    if differ:
        model.add_module(PROJECTIONS, nn.ModuleDict(differ))


@contextmanager
def without_projections(model: nn.Module) -> Iterator[None]:
    """Take the projections out of a student inside the `with` block: they are no part of its folder."""
    found = model._modules.pop(PROJECTIONS, None)
    try:
        yield
    finally:
        if found is not None:
            model.add_module(PROJECTIONS, found)


def has_relations(stack: Stack) -> bool:
    """Whether every layer has self-attention in which each token sees its whole sequence, or all before it."""
    parts: list[Any] = [block.attention.part for block in stack.blocks]  # type: ignore[union-attr]
    return type(stack) is Stack and all(isinstance(part, SelfAttention) and part.window is None for part in parts)


def most_heads(stack: Stack) -> int:
    """Return the number of query heads of a stack."""
    block: Any = stack.blocks[0]
    return int(block.attention.part.num_heads)


def width_of(stack: Stack) -> int:
    """Return the width of the states of a stack."""
    block: Any = stack.blocks[0]
    return int(block.feedforward.part.down.out_features)
