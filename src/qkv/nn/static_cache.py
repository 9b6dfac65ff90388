"""A KV cache of static shape, so that a decoding step can be recorded and replayed."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from qkv.common.ragged import Ragged
from qkv.nn.cache import KeyValueCache


class StaticCache(KeyValueCache):
    """Slots of one fixed length; only the device knows how far each is filled.

    Attributes:
        filled: tokens in each slot. Shape: [slots], int32.
    """

    def __init__(self, num_sequences: int, capacity: int, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(num_sequences, capacity=capacity)
        self.dtype = dtype
        self.filled = torch.zeros(num_sequences, dtype=torch.int32, device=device)
        slots = torch.arange(num_sequences + 1, dtype=torch.int32, device=device) * capacity
        self._starts = slots[:-1].long()
        self.keys = Ragged(
            offsets=slots,
            lengths=self.filled,
            max_length=capacity,
            num_rows=num_sequences * capacity,
            pitch=capacity,
            packed=False,
        )

    def begin(self, queries: Ragged) -> None:
        """Make room for one new token in each slot."""
        del queries
        self.positions = self.filled.long()
        self._rows = self._starts + self.positions
        self.filled.add_(1)
        beyond = torch.arange(self.capacity, device=self.filled.device) >= self.filled.unsqueeze(1)
        mask = torch.zeros(beyond.shape, dtype=self.dtype, device=beyond.device).masked_fill(beyond, -torch.inf)
        self.keys = replace(self.keys, mask=mask)  # a new layout: what the old one has cached is out of date

    def reorder(self, sequences: Tensor) -> None:
        """Make slot i continue what slot `sequences[i]` held."""
        for pair in self._layers.values():
            for x in pair:
                slots = x.unflatten(0, (self.num_sequences, self.capacity))
                slots.copy_(slots.index_select(0, sequences))
        self.filled.copy_(self.filled.index_select(0, sequences))

    def adopt(self, cache: KeyValueCache, copies: int) -> None:
        """Copy the contents of another cache, each of its slots `copies` times."""
        for layer, pair in cache.layers.items():
            for mine, theirs in zip(self.room(layer, pair[0], *pair[0].shape[1:]), pair, strict=True):
                held = theirs.unflatten(0, (-1, cache.capacity)).repeat_interleave(copies, 0)[:, : self.capacity]
                mine.unflatten(0, (self.num_sequences, self.capacity))[:, : held.shape[1]].copy_(held)
        lengths = torch.tensor(cache.lengths, dtype=torch.int32).repeat_interleave(copies)
        self.filled.copy_(lengths)

    def recall(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Copy a layer's keys and values of the encoder states to where a recorded step reads them."""
        if layer not in self._memory:
            self._memory[layer] = (k.clone(), v.clone())
            return
        for place, new in zip(self._memory[layer], (k, v), strict=True):
            place.copy_(new)
