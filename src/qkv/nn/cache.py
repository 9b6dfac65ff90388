"""Keys and values of tokens already seen, so that a step computes only the new ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from qkv.common.ragged import Ragged


class KeyValueCache:
    """One slot per sequence and layer, grown as needed; its layout is a `Ragged` with slack.

    A pass calls `begin` once with the layout of its new tokens, then each layer calls `write`. Keys and values of an
    encoder's memory are computed once and kept beside (`remember`): a beam shares them, so `reorder` leaves them alone.
    """

    def __init__(self, num_sequences: int, *, capacity: int = 64) -> None:
        self.num_sequences, self.capacity = num_sequences, capacity
        self.lengths = [0] * num_sequences
        self.keys = Ragged.of([0] * num_sequences)
        self.positions = torch.zeros(0, dtype=torch.int64)
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._memory: dict[int, tuple[Tensor, Tensor]] = {}
        self._rows = torch.zeros(0, dtype=torch.int64)

    def begin(self, queries: Ragged) -> None:
        """Make room for the new tokens: `keys` is then the layout of all tokens, `positions` those of the new ones."""
        device = queries.offsets.device
        before = torch.tensor(self.lengths, device=device)
        self.lengths = [old + new for old, new in zip(self.lengths, queries.host_lengths, strict=True)]
        if max(self.lengths) > self.capacity:
            self._grow(max(self.lengths))
        self.keys = Ragged(
            offsets=torch.arange(self.num_sequences + 1, device=device, dtype=torch.int32) * self.capacity,
            lengths=torch.tensor(self.lengths, device=device, dtype=torch.int32),
            max_length=max(self.lengths),
            num_rows=self.num_sequences * self.capacity,
            pitch=self.capacity,
            packed=False,
        )
        self.positions = queries.position_of + before[queries.sequence_of]
        self._rows = queries.sequence_of * self.capacity + self.positions

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add a layer's new keys and values; returns all of them, laid out as `keys`. Shape: [T, K, H] -> [S, K, H]."""
        if layer not in self._layers:
            shape = (self.num_sequences * self.capacity, *k.shape[1:])
            self._layers[layer] = (k.new_zeros(shape), v.new_zeros(shape))
        old = self._layers[layer]
        old[0][self._rows], old[1][self._rows] = k, v
        return old

    def remember(self, layer: int, compute: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values over the encoder's memory, computed at the first asking."""
        if layer not in self._memory:
            self._memory[layer] = compute()
        return self._memory[layer]

    def reorder(self, sequences: Tensor) -> None:
        """Make slot i continue what slot `sequences[i]` held: how beams move, and how finished sequences leave."""
        for layer, (k, v) in self._layers.items():
            self._layers[layer] = (self._slots(k)[sequences].flatten(0, 1), self._slots(v)[sequences].flatten(0, 1))
        self.lengths = [self.lengths[b] for b in sequences.tolist()]
        self.num_sequences = len(self.lengths)

    def _grow(self, needed: int) -> None:
        old, capacity = self.capacity, max(2 * self.capacity, needed)
        for layer, pair in self._layers.items():
            wider = []
            for x in pair:
                room = x.new_zeros(self.num_sequences, capacity, *x.shape[1:])
                room[:, :old] = self._slots(x)
                wider.append(room.flatten(0, 1))
            self._layers[layer] = (wider[0], wider[1])
        self.capacity = capacity

    def _slots(self, x: Tensor) -> Tensor:
        return x.view(self.num_sequences, self.capacity, *x.shape[1:])
