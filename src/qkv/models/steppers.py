"""Steppers over attention models: a token of each row in, the logits of the next one out.

    source ─► encoder ─► memory ◄─ askers: the rows of each source ─┐
    ids_R  ─► decoder, one new token per row over its cached ones ──┴─► logits_RV

Beams are rows. When they appear, move or leave, only the cache of their own tokens follows; the memory does not change
until a source is finished.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from qkv.common.batch import Tokens
from qkv.common.cuda.static_shape import up
from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.models.fixed_steppers import FixedPrompts, FixedSources, capacity_of
from qkv.nn import kernels
from qkv.nn.cache import KeyValueCache, slots

if TYPE_CHECKING:
    from qkv.models.skeleton import EncoderDecoder, Transformer

EVEN = 0.5  # a memory is laid out as a rectangle if at least this share of it is filled


class _Decoding:
    """Base of both kinds: a cache with a slot per row, and one new token for each."""

    def __init__(self, num_rows: int, device: torch.device) -> None:
        self.device = device
        self.cache = KeyValueCache(num_rows)
        self._ones = Ragged.of([1] * num_rows, device)

    def _next(self, ids: Tensor) -> Tokens:
        # Kernels keep their plans in the layout of the queries: a new layout drops those of the last step.
        return Tokens(ids, replace(self._ones))

    def best(self, ids: Tensor, count: int) -> None:
        """The search chooses from all logits."""

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held."""
        if len(rows) != self._ones.num_rows:
            self._ones = Ragged.of([1] * len(rows), self.device)
        self.cache.reorder(rows)


class SourceDecoding(_Decoding):
    """An encoder-decoder that has read its sources."""

    def __init__(self, model: EncoderDecoder, memory: Hidden) -> None:
        super().__init__(memory.layout.num_sequences, memory.states.device)
        self.model, self.memory = model, _even(memory)
        self.askers = self._ones  # the rows of each source; none if it is finished
        self._of_row = list(range(memory.layout.num_sequences))

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        """Shape: [R] -> [R, V]."""
        hidden = self.model.decode(self._next(ids), self.memory, self.cache, self.askers)
        return self.model.logits(hidden, "lm")

    def fixed(self, beams: int, longest: int) -> FixedSources | None:
        """Return a static stepper over the same sources for `longest` tokens, or None if it cannot be recorded."""
        memory, layout = self.memory, self.memory.layout
        if not kernels.recordable(self.model, self.device, memory.states.dtype):
            return None
        capacity = capacity_of(self.model, longest)
        key = (layout.num_sequences, beams, capacity, up(layout.num_rows, 64), up(layout.max_length, 16))
        found: FixedSources = self.model.steppers.get(key, lambda: FixedSources(self.model, beams, capacity, memory))
        found.load(memory)
        return found

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held; rows of one source stay together, sources in their order."""
        super().reorder(rows)
        of_row = [self._of_row[row] for row in rows.tolist()]
        if of_row == self._of_row:
            return
        counts, sources = Counter(of_row), range(self.memory.layout.num_sequences)
        if self.memory.layout.pitch is not None and len(counts) < len(sources):
            self._keep(sorted(counts))
            place = {source: number for number, source in enumerate(sorted(counts))}
            of_row = [place[source] for source in of_row]
            counts, sources = Counter(of_row), range(len(place))
        self._of_row, self.askers = of_row, Ragged.of([counts[source] for source in sources], self.device)

    def _keep(self, sources: list[int]) -> None:
        """Drop the other sources from the memory, so that the rest is a rectangle again."""
        layout = self.memory.layout
        lengths, pitch = [layout.host_lengths[source] for source in sources], layout.num_rows // layout.num_sequences
        start = torch.tensor(sources, device=self.device).unsqueeze(1) * pitch
        rows = (start + torch.arange(pitch, device=self.device)).flatten()
        left = Ragged.of(lengths, self.device) if layout.packed else slots(lengths, pitch, self.device)
        self.memory = Hidden(self.memory.states[rows], left)
        self.cache.keep_memory(rows)


def _even(memory: Hidden) -> Hidden:
    """Lay out the sources at equal distances if the kernels need rectangles, which are then views and not copies."""
    layout, states = memory.layout, memory.states
    count, pitch = layout.num_sequences, layout.max_length
    fused = kernels.fusable(states.device.type, states.dtype)
    if fused or layout.pitch is not None or layout.num_rows < EVEN * count * pitch:
        return memory
    rows = layout.sequence_of * pitch + layout.position_of
    even = states.new_zeros(count * pitch, states.shape[1]).index_copy_(0, rows, states)
    return Hidden(even, slots(layout.host_lengths, pitch, states.device))


class PromptDecoding(_Decoding):
    """A causal model that has read its prompts, except their last tokens.

    Attributes:
        first: the last token of each prompt, for the first step. Shape: [B].
    """

    def __init__(self, model: Transformer, prompts: Tokens) -> None:
        lengths = prompts.layout.host_lengths
        if not lengths or min(lengths) < 1:
            raise UsageError("a prompt must have at least one token")
        super().__init__(len(lengths), prompts.ids.device)
        self.model = model
        self.first = prompts.ids[prompts.layout.last]
        if max(lengths) > 1:
            earlier = torch.ones_like(prompts.ids, dtype=torch.bool)
            earlier[prompts.layout.last] = False
            layout = Ragged.of([length - 1 for length in lengths], self.device)
            model(Tokens(prompts.ids[earlier], layout), self.cache)

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        """Shape: [R] -> [R, V]."""
        return self.model.logits(self.model(self._next(ids), self.cache), "lm")

    def join(self, prompts: Tokens) -> None:
        """Read more prompts, whose rows follow those that are here; `first` is then theirs."""
        other = PromptDecoding(self.model, prompts)
        self.cache.join(other.cache)
        self.first = other.first
        self._ones = Ragged.of([1] * self.cache.num_sequences, self.device)

    def fixed(self, beams: int, longest: int) -> FixedPrompts | None:
        """Return a static stepper after the same prompts for `longest` tokens, or None if it cannot be recorded."""
        number, capacity = self.cache.num_sequences, capacity_of(self.model, max(self.cache.lengths) + longest)
        if not kernels.recordable(self.model, self.device, self.model.table.dtype, over_slots=True):
            return None
        made = partial(FixedPrompts, self.model, number, beams, capacity, self.device)
        found: FixedPrompts = self.model.steppers.get((number, beams, capacity), made)
        found.load(self.cache)
        return found
