"""Gates: a number for each attention head that its output is multiplied by, ξ in Michel et al. 2019, eq. 2.

A gate of 1 changes nothing, 0 removes the head, and the gradient of a loss with respect to it says how much the head
matters. As with taps, gates belong to a call, not to the model: two threads can use different ones at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from qkv.common.ragged import Ragged

Gates = Mapping[tuple[nn.Module, int], Tensor]  # by attention and layer: layers may share one attention
_GATES: ContextVar[Gates | None] = ContextVar("qkv_gates", default=None)


@contextmanager
def gated(gates: Gates) -> Iterator[None]:
    """Multiply the heads of this thread's forward passes until the block ends.

    Args:
        gates: one number per head, for all sequences or for each. Shape of each: [1, N] or [B, N].
    """
    token = _GATES.set(gates)
    try:
        yield
    finally:
        _GATES.reset(token)


def has_gates() -> bool:
    """Whether forward passes of this thread multiply heads by gates."""
    return not torch.compiler.is_compiling() and _GATES.get() is not None


def gate(attention: nn.Module, layer: int, out_TNH: Tensor, queries: Ragged) -> Tensor:
    """Multiply the output of each head by its gate, if there is one. Compiled code has none. Shape: [T, N, H]."""
    gates = None if torch.compiler.is_compiling() else _GATES.get()
    if gates is None or (attention, layer) not in gates:
        return out_TNH
    found = gates[attention, layer].to(out_TNH.dtype)
    rows = found if len(found) == 1 else found[queries.sequence_of]
    return out_TNH * rows.unsqueeze(-1)
