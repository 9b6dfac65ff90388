"""Ragged rows as a few rectangles, for kernels that need padded batches.

Sequences are sorted by length and cut into groups of nearly one length, so that there is little padding even when
one long sequence is among short ones. Rows move by gathers whose backward is a gather too (no scatter-add).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from qkv.common.ragged import Ragged

P = TypeVar("P")

# A group ends where a sequence would be padded to more than 1 / FILL of its length.
FILL = 0.7


@dataclass(frozen=True, eq=False)
class _Side:
    """How the rows of one side (queries or keys) fill [b, length]: by a view of the pitch, or by a gather."""

    length: int
    pitch: int | None = None
    index: Tensor | None = None  # [b * length]: the row each cell takes; a spare cell repeats the last row
    cells: Tensor | None = None  # the cells that are not spare, ...
    rows: Tensor | None = None  # ... and the rows they hold

    def fill(self, x: Tensor) -> Tensor:
        """Shape: [T, ...] -> [b, length, ...]."""
        if self.index is None:
            return x.view(-1, self.pitch, *x.shape[1:])[:, : self.length]  # type: ignore[arg-type]
        return _Gather.apply(x, self.index, self.cells, self.rows).view(-1, self.length, *x.shape[1:])

    def empty(self, x: Tensor) -> Tensor:
        """Shape: [b, length, ...] -> [rows, ...], spare cells dropped."""
        x = x.flatten(0, 1)
        return (
            x if self.cells is None or len(self.cells) == x.shape[0] else _Gather.apply(x, self.cells, None, self.cells)
        )


@dataclass(frozen=True, eq=False)
class Rectangle:
    """Some sequences of a call, as [b, L] queries over [b, S] keys."""

    sequences: list[int]
    q_side: _Side
    k_side: _Side
    q_lengths: list[int]
    k_lengths: list[int]
    k_sizes: Tensor  # k_lengths on the device
    shift: Tensor | None  # keys before the first query, per sequence; None where there are none
    order: Tensor  # the rows of all rectangles, one after the other ...
    inverse: Tensor  # ... and where each row is found among them

    def queries(self, x: Tensor) -> Tensor:
        """Shape: [T, ...] -> [b, L, ...]."""
        return self.q_side.fill(x)

    def keys(self, x: Tensor) -> Tensor:
        """Shape: [S, ...] -> [b, S, ...]."""
        return self.k_side.fill(x)

    def rows(self, x: Tensor) -> Tensor:
        """Shape: [b, L, ...] -> [rows, ...]."""
        return self.q_side.empty(x)

    @property
    def ragged_keys(self) -> bool:
        """Some key sequence is shorter than the rectangle."""
        return min(self.k_lengths) < self.k_side.length


def rectangles(queries: Ragged, keys: Ragged) -> list[Rectangle]:
    """Plan the rectangles of a pair of layouts."""
    return planned(queries, keys, "rectangles", lambda: _plan(queries, keys))


def planned(queries: Ragged, keys: Ragged, kind: Hashable, make: Callable[[], P]) -> P:
    """Compute something for a pair of layouts once for all layers; it lives as long as the layout of the queries."""
    plans: dict[Hashable, tuple[Ragged, P]] = queries.plans
    if (kind, id(keys)) not in plans:
        plans[kind, id(keys)] = (keys, make())  # holding the keys keeps their id theirs
    return plans[kind, id(keys)][1]


def gather(x: Tensor, index: Tensor, back: Tensor) -> Tensor:
    """Reorder rows; `back` undoes `index`."""
    return _Gather.apply(x, index, back, None)


def _plan(queries: Ragged, keys: Ragged) -> list[Rectangle]:
    q_lengths, k_lengths = queries.host_lengths, keys.host_lengths
    q_starts, k_starts = queries.offsets.tolist(), keys.offsets.tolist()
    groups = list(_groups(queries, keys))
    device = queries.offsets.device
    rows = [row for group in groups for b in group for row in range(q_starts[b], q_starts[b] + q_lengths[b])]
    order = torch.tensor(rows, dtype=torch.int64)
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order))
    whole = len(groups) == 1 and len(groups[0]) == len(q_lengths)
    plan = []
    for group in groups:
        q_sizes, k_sizes = [q_lengths[b] for b in group], [k_lengths[b] for b in group]
        shift = torch.tensor([k - q for q, k in zip(q_sizes, k_sizes, strict=True)])
        plan.append(
            Rectangle(
                sequences=group,
                q_side=_side(queries, [q_starts[b] for b in group], q_sizes, whole, device),
                k_side=_side(keys, [k_starts[b] for b in group], k_sizes, whole, device),
                q_lengths=q_sizes,
                k_lengths=k_sizes,
                k_sizes=torch.tensor(k_sizes, device=device),
                shift=shift.to(device) if bool(shift.any()) else None,
                order=order.to(device),
                inverse=inverse.to(device),
            )
        )
    return plan


def _groups(queries: Ragged, keys: Ragged) -> Iterator[list[int]]:
    """Sequences that share a rectangle; a sequence without queries is in none."""
    q, k = queries.host_lengths, keys.host_lengths
    asking = [b for b in range(len(q)) if q[b]]
    if not asking:
        return
    spread_q, spread_k = [q[b] for b in asking], [k[b] for b in asking]
    alike = min(spread_k) >= FILL * max(spread_k) and min(spread_q) >= FILL * max(spread_q)
    if alike or (keys.pitch is not None and not keys.packed):  # a cache is viewed as it is, never copied
        yield asking
        return
    asking.sort(key=lambda b: (-k[b], -q[b]))
    group: list[int] = []
    for b in asking:
        lengths = [q[c] for c in group] + [q[b]]
        if group and (k[b] < FILL * k[group[0]] or min(lengths) < FILL * max(lengths)):
            yield group
            group = []
        group.append(b)
    yield group


def _side(layout: Ragged, starts: list[int], sizes: list[int], whole: bool, device: torch.device) -> _Side:
    length = max(sizes)
    if whole and layout.pitch is not None:
        return _Side(length=length, pitch=layout.pitch)
    start, size = torch.tensor(starts).unsqueeze(1), torch.tensor(sizes).unsqueeze(1)
    place = torch.arange(length).unsqueeze(0)
    index = (start + place.minimum(size - 1)).flatten()
    cells = (place < size).flatten().nonzero().squeeze(1)
    rows = index[cells]
    in_place = len(rows) == layout.num_rows and bool((rows == torch.arange(len(rows))).all())
    return _Side(
        length=length,
        index=index.to(device),
        cells=cells.to(device),
        rows=None if in_place else rows.to(device),
    )


class _Gather(torch.autograd.Function):
    """x[index]; backwards, row `rows[i]` of x gets the gradient of cell `cells[i]` and the other rows get none.

    Spare cells repeat a row for shape alone: their results are dropped or hidden, so they carry no gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, cells: Tensor | None, rows: Tensor | None) -> Tensor:
        ctx.shape, ctx.cells, ctx.rows = x.shape, cells, rows
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        if ctx.cells is not None:
            grad = grad.index_select(0, ctx.cells)
        if ctx.rows is not None:
            grad = grad.new_zeros(ctx.shape).index_copy_(0, ctx.rows, grad)
        return grad, None, None, None
