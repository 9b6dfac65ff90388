"""The KV cache: keys and values of earlier tokens, so that a step computes only the new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.ragged import Ragged


def slots(lengths: list[int], pitch: int, device: torch.device) -> Ragged:
    """Lay out sequences at equal distances, each with room up to the next."""
    return Ragged(
        offsets=torch.arange(len(lengths) + 1, device=device, dtype=torch.int32) * pitch,
        lengths=torch.tensor(lengths, device=device, dtype=torch.int32),
        max_length=max(lengths),
        num_rows=len(lengths) * pitch,
        pitch=pitch,
        packed=False,
        known_lengths=lengths,
    )


class KeyValueCache:
    """One slot per sequence and layer, grown as needed; its layout is a `Ragged` with slack.

    A pass calls `begin` once with the layout of its new tokens, then each layer calls `write`. The keys and values of
    encoder states are computed once and kept separately (`remember`): a beam shares them, so `reorder` does not touch
    them.
    """

    def __init__(self, num_sequences: int, *, capacity: int = 64) -> None:
        self.num_sequences, self.capacity = num_sequences, capacity
        self.lengths = [0] * num_sequences
        self.keys = Ragged.of([0] * num_sequences)
        self.positions = torch.zeros(0, dtype=torch.int64)
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._memory: dict[int, tuple[Tensor, Tensor]] = {}
        self._rows = torch.zeros(0, dtype=torch.int64)
        self._shared: Tensor | None = None  # how many first tokens two slots share; None: none. [slots, slots]

    @property
    def layers(self) -> Mapping[int, tuple[Tensor, Tensor]]:
        """Keys and values of each layer so far. Shape: [S, K, H] each."""
        return self._layers

    def begin(self, queries: Ragged) -> None:
        """Make room for new tokens; sets `keys`, the layout of all tokens, and `positions` of the new ones."""
        device = queries.offsets.device
        before = torch.tensor(self.lengths, device=device)
        self.lengths = [old + new for old, new in zip(self.lengths, queries.host_lengths, strict=True)]
        if max(self.lengths) > self.capacity:
            self._resize(self.num_sequences, max(2 * self.capacity, *self.lengths))
        self.keys = slots(self.lengths, self.capacity, device)
        sequence = queries.sequence_of
        self.positions = queries.position_of + before[sequence]
        self._rows = sequence * self.capacity + self.positions

    def room(self, layer: int, like: Tensor, num_heads: int, head_dim: int) -> tuple[Tensor, Tensor]:
        """Return the storage of a layer's keys and values, made of zeros like `like` at first use.

        Shape: [S, K, H] each.
        """
        if layer not in self._layers:
            shape = (self.num_sequences * self.capacity, num_heads, head_dim)
            self._layers[layer] = (like.new_zeros(shape), like.new_zeros(shape))
        return self._layers[layer]

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add a layer's new keys and values; returns all of them, laid out as `keys`. Shape: [T, K, H] -> [S, K, H]."""
        old = self.room(layer, k, *k.shape[1:])
        for x, new in zip(old, (k, v), strict=True):
            x.index_copy_(0, self._rows, new)
        return old

    def remember(self, layer: int, compute: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values of the encoder states, computed at first use."""
        if layer not in self._memory:
            self._memory[layer] = compute()
        return self._memory[layer]

    def keep_memory(self, rows: Tensor) -> None:
        """Keep some rows of the memory; finished sources leave it."""
        self._memory = {layer: (k[rows], v[rows]) for layer, (k, v) in self._memory.items()}

    def reorder(self, sequences: Tensor) -> None:
        """Make slot i continue what slot `sequences[i]` held: how beams move, and how finished sequences leave.

        A slot copies only the tokens that it does not hold already: the beams of one source mostly differ in their last
        few tokens.
        """
        order = sequences.cpu()
        count, slots = len(order), torch.arange(len(order))
        if count == self.num_sequences and torch.equal(order, slots):
            return
        if count > self.num_sequences:
            self._resize(count, self.capacity)
        moved = order != slots
        to, origin = slots[moved], order[moved]
        lengths = torch.tensor(self.lengths)[order]
        start = torch.zeros_like(to) if self._shared is None else self._shared[to, origin]
        self._copy(origin, to, start, lengths[moved])
        self._share(order, lengths)
        self.lengths, self.num_sequences = lengths.tolist(), count
        rows = count * self.capacity
        self._layers = {layer: (k[:rows], v[:rows]) for layer, (k, v) in self._layers.items()}

    def join(self, other: KeyValueCache) -> None:
        """Give the sequences of another cache slots after those that are here. Neither may share tokens."""
        held = self.num_sequences
        self._resize(held + other.num_sequences, max(self.capacity, other.capacity))
        for layer, pair in other.layers.items():
            mine = self.room(layer, pair[0], *pair[0].shape[1:])
            for x, more in zip(mine, pair, strict=True):
                part = more.view(other.num_sequences, other.capacity, *more.shape[1:])
                x.view(self.num_sequences, self.capacity, *x.shape[1:])[held:, : other.capacity] = part
        self.lengths[held:] = other.lengths

    def _copy(self, origin: Tensor, to: Tensor, start: Tensor, end: Tensor) -> None:
        """Copy tokens start ... end - 1 of slots `origin` to slots `to`. Shape of each: [moved]."""
        counts = end - start
        position = torch.arange(int(counts.sum())) + (start - counts.cumsum(0) + counts).repeat_interleave(counts)
        read = (origin * self.capacity).repeat_interleave(counts) + position
        written = (to * self.capacity).repeat_interleave(counts) + position
        device = self._rows.device
        read, written = read.to(device), written.to(device)
        for pair in self._layers.values():
            for x in pair:
                x.index_copy_(0, written, x.index_select(0, read))

    def _share(self, order: Tensor, lengths: Tensor) -> None:
        """Keep track of the tokens that slots share: all of them if they continue the same slot."""
        same = order.unsqueeze(1) == order
        if self._shared is not None:
            self._shared = torch.where(same, lengths, self._shared[order][:, order])
        elif bool(same.sum() > len(order)):
            self._shared = torch.where(same, lengths, 0)

    def _resize(self, count: int, capacity: int) -> None:
        """Make more slots, or longer ones."""
        held, length = self.num_sequences, self.capacity
        for layer, pair in self._layers.items():
            wider = []
            for x in pair:
                room = x.new_zeros(count, capacity, *x.shape[1:])
                room[:held, :length] = x.view(held, length, *x.shape[1:])
                wider.append(room.flatten(0, 1))
            self._layers[layer] = (wider[0], wider[1])
        more = count - held
        if self._shared is not None:
            self._shared = F.pad(self._shared, (0, more, 0, more))
        self.lengths = self.lengths + [0] * more
        self.num_sequences, self.capacity = count, capacity
