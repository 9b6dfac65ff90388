"""Attention models in the middle of decoding: a token of each row in, the scores of the next one out.

    source ─► encoder ─► memory ◄─ askers: so many rows per source ─┐
    ids_R  ─► decoder, one new token per row over its cached ones ──┴─► logits_RV

Beams are rows. When they are born, move or leave, only the cache of their own tokens follows; the memory lies still.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.common.ragged import Ragged
from qkv.nn.cache import KeyValueCache

if TYPE_CHECKING:
    from qkv.models.skeleton import EncoderDecoder, Transformer


class _Decoding:
    """What both kinds share: a cache with a slot per row, and one new token for each."""

    def __init__(self, num_rows: int, device: torch.device) -> None:
        self.device = device
        self.cache = KeyValueCache(num_rows)
        self._ones = Ragged.of([1] * num_rows, device)

    def _next(self, ids: Tensor) -> Tokens:
        # Kernels keep their plans with the layout of the queries: a new one each step lets go of the last step's.
        return Tokens(ids, replace(self._ones))

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held."""
        if len(rows) != self._ones.num_rows:
            self._ones = Ragged.of([1] * len(rows), self.device)
        self.cache.reorder(rows)


class SourceDecoding(_Decoding):
    """An encoder-decoder with its sources read."""

    def __init__(self, model: EncoderDecoder, memory: Hidden) -> None:
        super().__init__(memory.layout.num_sequences, memory.states.device)
        self.model, self.memory = model, memory
        self.askers = self._ones  # the rows of each source; none where it is finished
        self._of_row = list(range(memory.layout.num_sequences))

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        """Shape: [R] -> [R, V]."""
        hidden = self.model.decode(self._next(ids), self.memory, self.cache, self.askers)
        return self.model.logits(hidden, "lm")

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held; rows of one source stay together, sources in their order."""
        super().reorder(rows)
        of_row = [self._of_row[row] for row in rows.tolist()]
        if of_row != self._of_row:
            counts = [0] * self.memory.layout.num_sequences
            for source in of_row:
                counts[source] += 1
            self._of_row, self.askers = of_row, Ragged.of(counts, self.device)


class PromptDecoding(_Decoding):
    """A causal model with its prompts read, but for their last tokens.

    Attributes:
        first: the last token of each prompt, which the first step gets. Shape: [B].
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
