"""Multi-head attention (Vaswani et al. 2017, section 3.2) over ragged rows.

x_TD ──► q_TNH ──┐                      ┌─► tap (watch here) ─► kernel ─► gate ─► out_TD
x_TD ──► k_TKH ──┼─► placement (turn) ──┤
x_TD ──► v_TKH ──┘        └► cache ─────┘
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.common.rows import Rows
from qkv.nn import kernels
from qkv.nn.cache import KeyValueCache
from qkv.nn.gates import gate
from qkv.nn.kernels import Call
from qkv.nn.linear import Linear
from qkv.nn.positions import Place, Placement
from qkv.nn.tap import Tap


@dataclass(frozen=True, eq=False)
class PassContext:
    """What every layer of a forward pass needs: layouts, cache, encoder states.

    Attributes:
        place: the layouts of new and of all tokens, and the positions of the new ones.
        cache: keys and values of earlier tokens, or None.
        memory: the encoder states, for cross-attention.
        askers: the layout of the queries over the memory. In a beam search, `beam` tokens share one source.
        rows: the rows whose states are needed, or None for all; set for the last layer only.
    """

    place: Place
    cache: KeyValueCache | None = None
    memory: Hidden | None = None
    askers: Ragged | None = None
    rows: Rows | None = None

    @staticmethod
    def of(
        queries: Ragged,
        *,
        cache: KeyValueCache | None = None,
        memory: Hidden | None = None,
        askers: Ragged | None = None,
    ) -> PassContext:
        """Start a pass over new tokens with the layout `queries`."""
        if cache is None:
            return PassContext(Place(queries, queries, queries.position_of), None, memory, askers or queries)
        cache.begin(queries)
        return PassContext(Place(queries, cache.keys, cache.positions), cache, memory, askers or queries)


class _Attention(nn.Module):
    """Base of both kinds of attention: heads, output projection, kernel."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        scale: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise UsageError(f"num_heads must be at least 1, got {num_heads}")
        if head_dim is None and dim % num_heads:
            raise UsageError(f"dim {dim} cannot be cut into num_heads {num_heads} equal heads")
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads or num_heads
        if self.num_heads % self.num_kv_heads:
            raise UsageError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        self.head_dim = head_dim or dim // num_heads
        self.scale = self.head_dim**-0.5 if scale is None else scale
        self.dropout = dropout
        self.out = Linear(self.num_heads * self.head_dim, dim, bias=bias)
        self.tap = Tap()
        self.kernel: kernels.Kernel = kernels.automatic

    def _run(self, call: Call) -> Tensor:
        self.tap(call)
        return self.kernel(call)

    def _heads(self, x: Tensor) -> Tensor:
        """Shape: [T, heads · H] -> [T, heads, H]."""
        return x.unflatten(-1, (-1, self.head_dim))


class SelfAttention(_Attention):
    """Each token attends to the tokens of its own sequence.

    Args:
        dim: D.
        num_heads: N query heads.
        causal: a token sees no later token.
        window: a token sees no further than this, or None.
        options: see `_Attention`.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        causal: bool = False,
        window: int | None = None,
        bias: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(dim, num_heads, bias=bias, **options)
        self.causal, self.window = causal, window
        self.sizes = [self.num_heads * self.head_dim] + [self.num_kv_heads * self.head_dim] * 2
        self.qkv = Linear(dim, sum(self.sizes), bias=bias)  # one product for all three

    def forward(self, x: Tensor, context: PassContext, placement: Placement, layer: int) -> Tensor:
        """Shape: [T, D] -> [T, D], or [selected rows, D]."""
        self.tap.begin(layer)
        q, k, v = (self._heads(part) for part in self._project(x, context.rows))
        q, k = placement.turn(q, k)
        if context.cache is not None:
            k, v = context.cache.write(layer, k, v)
        call = Call(
            q=q,
            k=k,
            v=v,
            queries=context.place.queries if context.rows is None else context.rows.layout,
            keys=context.place.keys,
            scale=self.scale,
            causal=self.causal,
            window=self.window,
            dropout=self.dropout if self.training else 0.0,
        )
        if context.rows is None:
            attended = placement.attend(call, self._run)
        else:
            if self.tap.watched:
                self.tap(self._whole(x, call, context))
            attended = self.kernel(call)
        return self.out(gate(self, layer, attended, call.queries).flatten(1))

    @property
    def narrows(self) -> bool:
        """Whether some rows can be computed alone: attention does not depend on positions."""
        return not self.causal and self.window is None

    @torch.no_grad()
    def _whole(self, x: Tensor, call: Call, context: PassContext) -> Call:
        """Return the call with the queries of all rows, for recorders only: the model computes what it always does."""
        q = self._heads(self.qkv.part(x, 0, self.sizes[0]))
        return replace(call, q=q, queries=context.place.queries)

    def _project(self, x: Tensor, rows: Rows | None) -> tuple[Tensor, ...]:
        """Queries of the needed rows, keys and values of all."""
        if rows is None:
            return self.qkv(x).split(self.sizes, dim=-1)
        keys, end = self.sizes[0], sum(self.sizes)
        k, v = self.qkv.part(x, keys, end).split(self.sizes[1:], dim=-1)
        return self.qkv.part(x.index_select(0, rows.index), 0, keys), k, v


class CrossAttention(_Attention):
    """Each token attends to the encoder states of its own source: the same call with another key layout."""

    def __init__(self, dim: int, num_heads: int, *, bias: bool = True, **options: Any) -> None:
        super().__init__(dim, num_heads, bias=bias, **options)
        self.q = Linear(dim, self.num_heads * self.head_dim, bias=bias)
        self.kv = Linear(dim, 2 * self.num_kv_heads * self.head_dim, bias=bias)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Compute keys and values of the encoder states. Shape: [S, D] -> [S, K, H] each."""
        k, v = self.kv(memory).chunk(2, dim=-1)
        return self._heads(k), self._heads(v)

    def forward(self, x: Tensor, context: PassContext, layer: int) -> Tensor:
        """Shape: [T, D] -> [T, D]."""
        memory, askers = context.memory, context.askers
        if memory is None or askers is None:
            raise UsageError("cross-attention needs the encoder states: pass `memory`")

        self.tap.begin(layer)
        cache, states = context.cache, memory.states
        k, v = self.project(states) if cache is None else cache.remember(layer, lambda: self.project(states))
        dropout = self.dropout if self.training else 0.0
        q = self._heads(self.q(x))
        call = Call(q=q, k=k, v=v, queries=askers, keys=memory.layout, scale=self.scale, dropout=dropout)
        return self.out(gate(self, layer, self._run(call), call.queries).flatten(1))
