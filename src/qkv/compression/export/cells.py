"""Layouts while a graph is traced: rows of real tokens, whose places are read from an attention mask.

    attention_mask   1 1 1 0      rows   a b c | d
                     1 0 0 0

A graph takes rectangles, as every other engine does, drops the padding at once, and computes on rows. Only attention
spreads them again (`attend`). `Ragged` cannot stand here: its lengths are numbers of the host, which a graph would
keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from qkv.nn.kernels import Call

HIDDEN = -1e30  # the score of a key that must not be seen; -inf would give NaN where a query sees nothing


class Cells:
    """A rectangle of cells, of which some hold a token: in a graph, what `Ragged` is in a model.

    Attributes:
        real: which cells hold a token, or None for all. Shape: [B, S], bool.
        positions: the position of the token of each cell in its sequence. Shape: [B, S].
        max_length: S.
    """

    def __init__(self, shape: tuple[Any, Any], real: Tensor | None, positions: Tensor) -> None:
        self.shape, self.real, self.positions = shape, real, positions
        self.max_length = shape[1]
        if real is not None:
            flat = real.flatten()
            self._cells = flat.nonzero().squeeze(1)  # the cell of each row ...
            self._rows = (flat.long().cumsum(0) - 1).clamp_min(0)  # ... and the row of each cell
            self._ends = real.long().sum(1).cumsum(0)

    @staticmethod
    def of(mask: Tensor) -> Cells:
        """Read a mask of 0 and 1. Shape: [B, S]."""
        real = mask != 0
        return Cells((mask.shape[0], mask.shape[1]), real, (real.long().cumsum(1) - 1).clamp_min(0))

    @staticmethod
    def full(batch: Any, length: Any, start: Any = 0) -> Cells:
        """Return a rectangle without padding, whose tokens begin at a position."""
        return Cells((batch, length), None, (start + torch.arange(length)).unsqueeze(0).expand(batch, -1))

    def newest(self, length: Any) -> Cells:
        """Return the last `length` columns."""
        real = None if self.real is None else self.real.narrow(1, self.shape[1] - length, length)
        return Cells((self.shape[0], length), real, self.positions.narrow(1, self.shape[1] - length, length))

    def rows(self, x: Tensor) -> Tensor:
        """Keep the cells that hold a token. Shape: [B, S, ...] -> [T, ...]."""
        x = x.flatten(0, 1)
        return x if self.real is None else x.index_select(0, self._cells)

    def spread(self, x: Tensor) -> Tensor:
        """Undo `rows`; a cell without a token repeats some other. Shape: [T, ...] -> [B, S, ...]."""
        return (x if self.real is None else x.index_select(0, self._rows)).unflatten(0, self.shape)

    @property
    def position_of(self) -> Tensor:
        """The position of each row. Shape: [T]."""
        return self.rows(self.positions)

    @property
    def first(self) -> Tensor:
        """The first row of each sequence. Shape: [B]."""
        if self.real is None:
            return torch.arange(self.shape[0]) * self.shape[1]
        return self._ends - self.real.long().sum(1)

    @property
    def last(self) -> Tensor:
        """The last row of each sequence. Shape: [B]."""
        return self.first + self.shape[1] - 1 if self.real is None else self._ends - 1


class PastCache:
    """The KV cache of a graph: what came before goes in, and all of it comes out.

    Attributes:
        keys: the cells of all tokens.
        positions: those of the new rows. Shape: [T].
        present: keys and values of each layer after the pass. Shape: [B, K, S, H] each.
    """

    def __init__(
        self, queries: Cells, keys: Cells, past: list[tuple[Tensor, Tensor]], memory: list[tuple[Tensor, Tensor]]
    ) -> None:
        self.queries, self.keys, self.positions = queries, keys, queries.position_of
        self._past, self._memory = past, memory
        self.present: list[tuple[Tensor, Tensor]] = []

    def begin(self, queries: Any) -> None:
        """Nothing to make room for."""

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the new keys and values of a layer. Shape: [T, K, H] -> [B, K, S, H] each."""
        new = [self.queries.spread(x).transpose(1, 2) for x in (k, v)]
        both = [torch.cat([old, x], 2) for old, x in zip(self._past[layer], new, strict=True)]
        self.present.append((both[0], both[1]))
        return both[0], both[1]

    def remember(self, layer: int, compute: Callable[[], Any]) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values of the encoder states. Shape: [B, N, S, H] each."""
        del compute
        return self._memory[layer]


def attend(call: Call) -> Tensor:
    """Compute attention as `kernels.eager` does, over cells. Shape: [T, N, H]."""
    queries: Any = call.queries
    keys: Any = call.keys
    q = queries.spread(call.q).transpose(1, 2)
    k, v = (_heads(x if x.dim() == 4 else keys.spread(x).transpose(1, 2), q.shape[1]) for x in (call.k, call.v))
    scores = q @ k.transpose(-1, -2) * call.scale
    distance = keys.positions.unsqueeze(1) - queries.positions.unsqueeze(2)  # [B, L, S]
    column = None
    if call.bias is not None:
        column = distance.clamp(-call.bias.reach, call.bias.reach) + call.bias.reach
        scores = scores + _bias(call, column)
    seen = None if keys.real is None else keys.real.unsqueeze(1)
    if call.causal or call.window is not None:
        near = distance <= (0 if call.causal else call.window or 0)
        near = near if call.window is None else near & (distance >= -call.window)
        seen = near if seen is None else near & seen
    if seen is not None:
        scores = scores.masked_fill(~seen.unsqueeze(1), HIDDEN)
    weights = scores.softmax(-1)
    out = weights @ v
    if call.bias is not None and call.bias.values is not None:
        assert column is not None
        bins = weights.new_zeros(1).expand(*weights.shape[:-1], call.bias.table.shape[-1])
        index = column.unsqueeze(1).expand_as(weights)
        out = out + bins.scatter_add(-1, index, weights) @ call.bias.values
    found: Tensor = queries.rows(out.transpose(1, 2))
    return found


def _bias(call: Call, column: Tensor) -> Tensor:
    """What the bias adds to the scores. Shape: [B, L, S] -> [B, N, L, S]."""
    assert call.bias is not None
    table: Tensor = call.bias.table
    queries: Any = call.queries
    if table.dim() == 2:
        return table.t().index_select(0, column.flatten()).unflatten(0, column.shape).permute(0, 3, 1, 2)
    per_query = queries.spread(table).transpose(1, 2)  # [B, N, L, R]
    index = column.unsqueeze(1).expand(-1, per_query.shape[1], -1, -1)
    return per_query.gather(-1, index)


def _heads(x: Tensor, heads: int) -> Tensor:
    """Repeat key or value heads to match the query heads. Shape: [B, K, S, H] -> [B, N, S, H]."""
    if x.shape[1] == heads:
        return x
    shared = x.unsqueeze(2).expand(-1, -1, heads // x.shape[1], -1, -1)
    return shared.flatten(1, 2)
