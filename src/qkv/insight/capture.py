"""Attention weights of a pass, whatever kernel ran: calls are recorded at the taps, weights computed on demand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.common.errors import UsageError
from qkv.nn import kernels
from qkv.nn.attention import CrossAttention, SelfAttention
from qkv.nn.kernels import Call
from qkv.nn.recurrent import SegmentAttention, Step
from qkv.nn.tap import Tap, recording

Key = tuple[str, int]  # the dotted name of an attention, and the layer it works in


class Found:
    """What the last pass of each attention computed.

    Attributes:
        calls: the calls of one pass, by name and layer: one call, or several for positions that work in groups.
        steps: the same for the attention of a recurrent decoder: one for each step.
    """

    def __init__(self, names: dict[Tap, str]) -> None:
        self.calls: dict[Key, list[Call]] = {}
        self.steps: dict[Key, list[Step]] = {}
        self._names = names
        self._current: dict[Tap, Key] = {}

    def begin(self, tap: Tap, layer: int) -> None:
        """Start the list of calls of a pass."""
        if tap in self._names:
            key = self._current[tap] = self._names[tap], layer
            self.calls.pop(key, None)
            self.steps.pop(key, None)

    def add(self, tap: Tap, seen: Call | Step) -> None:
        """Keep a call, or a step."""
        if tap not in self._current:
            return
        if isinstance(seen, Step):
            kept = replace(seen, weights=seen.weights.detach())
            self.steps.setdefault(self._current[tap], []).append(kept)
        else:
            self.calls.setdefault(self._current[tap], []).append(_kept(seen))

    def weights(self) -> dict[str, list[Tensor]]:
        """Return the weights of each attention by its dotted name, one tensor per sequence. Shape of each: [N, L, S].

        An attention that several layers share is named once for each: `NAME@0`, `NAME@1`.
        """
        names = [name for name, _ in (*self.calls, *self.steps)]
        with torch.no_grad():
            found = {key: weights_of(calls) for key, calls in self.calls.items()}
        found |= {key: weights_of_steps(steps) for key, steps in self.steps.items()}
        return {
            name if names.count(name) == 1 else f"{name}@{layer}": weights for (name, layer), weights in found.items()
        }


@contextmanager
def capture(model: nn.Module) -> Iterator[Found]:
    """Watch every attention of `model` until the block ends; the model computes what it always does.

    Only passes of the calling thread are captured. With a cache each step is a pass of its own, and the last one is
    kept: run the whole sequence to see all of it. The weights are those before dropout. Steps that run as one CUDA
    graph are not seen.
    """
    attentions = (SelfAttention, CrossAttention, SegmentAttention)
    names = {m.tap: name or "attention" for name, m in model.named_modules() if isinstance(m, attentions)}
    if not names:
        raise UsageError(f"{type(model).__name__} has no attention that can be watched")
    found = Found(names)
    with recording(found):
        yield found


def weights_of(calls: list[Call]) -> list[Tensor]:
    """Return the weights of one pass, one tensor per sequence. Shape of each: [N, L, S]."""
    if len(calls) == 1:
        return kernels.weights(calls[0])
    # Groups of queries that see more and more keys (dynamic rotary positions): a sequence is identified by the offset
    # of its keys, and its groups follow each other.
    groups: dict[int, list[Tensor]] = {}
    for call in calls:
        for start, weights in zip(call.keys.offsets.tolist(), kernels.weights(call), strict=False):
            groups.setdefault(start, []).append(weights)
    return [_stacked(groups[start]) for start in sorted(groups)]


def weights_of_steps(steps: list[Step]) -> list[Tensor]:
    """Return the weights of a recurrent decoder's steps, one tensor per sequence. Shape of each: [1, L, S]."""
    rows: dict[int, list[Tensor]] = {}
    for step in steps:
        for sequence in step.sequence.unique().tolist():
            rows.setdefault(sequence, []).append(step.weights[step.sequence == sequence])
    return [torch.stack(rows[sequence]).unsqueeze(0) for sequence in sorted(rows)]


def one_head(call: Call, head: int) -> Call:
    """Return the call of one query head."""
    own = slice(head, head + 1)
    shared = head // (call.q.shape[1] // call.k.shape[1])
    theirs, bias = slice(shared, shared + 1), call.bias
    if bias is not None:
        bias = replace(bias, table=bias.table[own] if bias.table.dim() == 2 else bias.table[:, own])
    return replace(call, q=call.q[:, own], k=call.k[:, theirs], v=call.v[:, theirs], bias=bias)


def _kept(call: Call) -> Call:
    """Detach from the graph; copy keys that are in a cache, because the next step writes to it."""
    k, v = call.k.detach(), call.v.detach()
    if not call.keys.packed:
        k, v = k.clone(), v.clone()
    bias = call.bias
    if bias is not None:
        bias = replace(bias, table=bias.table.detach(), values=None if bias.values is None else bias.values.detach())
    return replace(call, q=call.q.detach(), k=k, v=v, bias=bias)


def _stacked(parts: list[Tensor]) -> Tensor:
    """Stack groups of queries; keys that a group does not see have weight 0."""
    keys = max(part.shape[-1] for part in parts)
    return torch.cat([F.pad(part, (0, keys - part.shape[-1])) for part in parts], dim=1)
