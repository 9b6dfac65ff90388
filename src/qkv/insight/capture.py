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
from qkv.nn.tap import Tap, recording


class Found:
    """What the last pass of each attention computed.

    Attributes:
        calls: the calls of one pass, by name and layer: one call, or several for positions that work in groups.
    """

    def __init__(self, names: dict[Tap, str]) -> None:
        self.calls: dict[tuple[str, int], list[Call]] = {}
        self._names = names
        self._current: dict[Tap, list[Call]] = {}

    def begin(self, tap: Tap, layer: int) -> None:
        """Start the list of calls of a pass."""
        if tap in self._names:
            self._current[tap] = self.calls[self._names[tap], layer] = []

    def add(self, tap: Tap, seen: Call) -> None:
        """Keep a call."""
        if tap in self._current:
            self._current[tap].append(_kept(seen))

    def weights(self) -> dict[str, list[Tensor]]:
        """Return the weights of each attention by its dotted name, one tensor per sequence. Shape of each: [N, L, S].

        An attention that several layers share is named once for each: `NAME@0`, `NAME@1`.
        """
        names = [name for name, _ in self.calls]
        with torch.no_grad():
            return {
                name if names.count(name) == 1 else f"{name}@{layer}": _weights(calls)
                for (name, layer), calls in self.calls.items()
            }


@contextmanager
def capture(model: nn.Module) -> Iterator[Found]:
    """Watch every attention of `model` until the block ends; the model computes what it always does.

    Only passes of the calling thread are captured. With a cache each step is a pass of its own, and the last one is
    kept: run the whole sequence to see all of it.
    """
    attentions = (SelfAttention, CrossAttention)
    names = {m.tap: name or "attention" for name, m in model.named_modules() if isinstance(m, attentions)}
    if not names:
        raise UsageError(f"{type(model).__name__} has no attention that can be watched")
    found = Found(names)
    with recording(found):
        yield found


def _kept(call: Call) -> Call:
    """Detach from the graph; copy keys that are in a cache, because the next step writes to it."""
    k, v = call.k.detach(), call.v.detach()
    if not call.keys.packed:
        k, v = k.clone(), v.clone()
    bias = call.bias
    if bias is not None:
        bias = replace(bias, table=bias.table.detach(), values=None if bias.values is None else bias.values.detach())
    return replace(call, q=call.q.detach(), k=k, v=v, bias=bias)


def _weights(calls: list[Call]) -> list[Tensor]:
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


def _stacked(parts: list[Tensor]) -> Tensor:
    """Stack groups of queries; keys that a group does not see have weight 0."""
    keys = max(part.shape[-1] for part in parts)
    return torch.cat([F.pad(part, (0, keys - part.shape[-1])) for part in parts], dim=1)
