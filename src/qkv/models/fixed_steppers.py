"""Steppers of static shapes over attention models.

Their step can be recorded as a CUDA graph, and the recording serves every batch of the same sizes: sources and prompts
are copied to where it reads them. Sizes are rounded up, so that few recordings are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from qkv.common.batch import Tokens
from qkv.common.cuda.static_shape import up
from qkv.common.cuda.triton import buildable
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.nn.cache import KeyValueCache
from qkv.nn.positions import Place
from qkv.nn.stack import Stack
from qkv.nn.static_cache import StaticCache

if TYPE_CHECKING:
    from qkv.models.skeleton import EncoderDecoder, Transformer

Layers = Callable[[Stack, Tensor, StaticCache], Tensor]
KEPT = 8  # steppers of one model, and recordings of one stepper: the most recently used


class StepperCache:
    """The static steppers of a model by their sizes, or the recordings of a stepper by their settings."""

    def __init__(self) -> None:
        self._held: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what serves these sizes or settings, made at first use; the least recently used are dropped."""
        found = self._held.pop(key, None)
        self._held[key] = make() if found is None else found  # the most recently used is last
        while len(self._held) > KEPT:
            del self._held[next(iter(self._held))]
        return self._held[key]

    def clear(self) -> None:
        """Drop everything."""
        self._held.clear()

    def __len__(self) -> int:
        return len(self._held)

    def __deepcopy__(self, memo: dict[int, Any]) -> StepperCache:
        return StepperCache()  # recordings read the weights of the model that made them


class FixedDecoding:
    """Base of both kinds.

    Attributes:
        kept: the state and the recording of each search with these sizes.
    """

    def __init__(self, rows: int, capacity: int, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.cache = StaticCache(rows, capacity, device, dtype)
        self.start = torch.zeros_like(self.cache.filled)
        self.ones = Ragged.of([1] * rows, device)
        self.kept = StepperCache()

    def begin(self) -> None:
        """Go back to the first step, after the sources or prompts."""
        self.cache.filled.copy_(self.start)

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` of the same source held."""
        self.cache.reorder(rows)


class FixedSources(FixedDecoding):
    """An encoder-decoder with a fixed number of sources, each with `beams` rows."""

    def __init__(self, model: EncoderDecoder, beams: int, capacity: int, memory: Hidden) -> None:
        layout = memory.layout
        super().__init__(layout.num_sequences * beams, capacity, memory.states.device, memory.states.dtype)
        self.model = model
        rows, longest = up(layout.num_rows, 64), up(layout.max_length, 16)
        self.memory = Hidden(
            memory.states.new_zeros(rows, memory.states.shape[1]),
            Ragged(layout.offsets.clone(), layout.lengths.clone(), max_length=longest, num_rows=rows),
        )
        self.askers = Ragged.of([beams] * layout.num_sequences, self.device)

    def load(self, memory: Hidden) -> None:
        """Load other sources, as many as before."""
        held = self.memory
        held.states[: len(memory.states)].copy_(memory.states)
        held.layout.offsets.copy_(memory.layout.offsets)
        held.layout.lengths.copy_(memory.layout.lengths)
        decoder = self.model.decoder
        assert decoder is not None
        for layer in range(decoder.depth):
            block: Any = decoder.blocks[layer * len(decoder.blocks) // decoder.depth]
            self.cache.recall(layer, *block.cross.part.project(held.states))
        self.begin()

    def step(self, ids: Tensor) -> Tensor:
        """Shape: [R] -> [R, V]."""
        hidden = self.model.decode(Tokens(ids, self.ones), self.memory, self.cache, self.askers)
        return self.model.logits(hidden, "lm")


class FixedPrompts(FixedDecoding):
    """A causal model with a fixed number of prompts, each with `beams` rows."""

    def __init__(self, model: Transformer, prompts: int, beams: int, capacity: int, device: torch.device) -> None:
        super().__init__(prompts * beams, capacity, device, model.table.dtype)
        self.model, self.beams = model, beams
        self.layers = few_rows(model.stack, prompts * beams, device)

    def load(self, cache: KeyValueCache) -> None:
        """Load prompts that have been read."""
        self.cache.adopt(cache, self.beams)
        self.start.copy_(self.cache.filled)

    def step(self, ids: Tensor) -> Tensor:
        """Shape: [R] -> [R, V]."""
        tokens = Tokens(ids, self.ones)
        hidden = self.model(tokens, self.cache) if self.layers is None else self._through(self.layers, tokens)
        # A finished row runs on beside longer ones; it stays at the last position.
        self.cache.filled.clamp_max_(self.cache.capacity - 1)
        return self.model.logits(hidden, "lm")

    def _through(self, layers: Layers, tokens: Tokens) -> Hidden:
        """Run the model, with other kernels for its layers."""
        cache, stack = self.cache, self.model.stack
        x = self.model.embeddings(tokens, Place(self.ones, cache.keys, cache.filled))
        x = layers(stack, x, cache)
        cache.filled.add_(1)
        return Hidden(stack.norm(x), self.ones)


def few_rows(stack: Stack, rows: int, device: torch.device) -> Layers | None:
    """Return the kernels for few rows, if they can run these layers."""
    if not buildable(device):
        return None
    from qkv.nn import small_batch_decode  # needs Triton

    return small_batch_decode.layers if small_batch_decode.fits(stack, rows) else None


def capacity_of(model: Any, needed: int) -> int:
    """Round a number of tokens up, but not past the model's last position."""
    limit = getattr(model.embeddings.position, "limit", None)
    return up(needed, 64) if limit is None else min(up(needed, 64), limit)
