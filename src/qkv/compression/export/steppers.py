"""Steppers over exported graphs: the searches of `decoding/` with another engine.

The cache is what the last step returned (`present`), and the next step gets it back (`past_key_values`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged
from qkv.compression.export.feeds import Engine, empty_past, memory_of, rectangle
from qkv.compression.export.graphs import DECODER, ENCODER, MODEL
from qkv.compression.export.modules import PAST, PRESENT


class _Cached:
    """Base of both kinds: the cache of each row."""

    device = torch.device("cpu")

    def __init__(self, past: dict[str, Tensor]) -> None:
        self._past = past

    def best(self, ids: Tensor, count: int) -> None:
        """The search chooses from all logits."""

    def fixed(self, beams: int, longest: int) -> None:
        """These steps are not recorded."""

    def _keep(self, found: Mapping[str, Tensor]) -> None:
        self._past = {PAST + name.removeprefix(PRESENT): x for name, x in found.items() if name.startswith(PRESENT)}

    def _move(self, rows: Tensor) -> bool:
        """Reorder the cache; returns whether that changed anything."""
        number = len(next(iter(self._past.values())))
        if len(rows) == number and torch.equal(rows, torch.arange(number)):
            return False
        self._past = {name: x.index_select(0, rows) for name, x in self._past.items()}
        return True


class ExportedSources(_Cached):
    """An exported encoder-decoder that has read its sources."""

    def __init__(self, engine: Engine, decoder: nn.Module | None, source: Tokens) -> None:
        given = rectangle(source)
        super().__init__(empty_past(decoder, len(given["input_ids"])))
        self._engine = engine
        self._memory = memory_of(engine.run(ENCODER, given), given)
        self._of_row = torch.arange(len(given["input_ids"]))  # the source of each row

    def step(self, ids: Tensor) -> Tensor:
        """Shape: [R] -> [R, V]."""
        sources = len(self._memory["encoder_attention_mask"])
        found = self._engine.run(DECODER, self._past | self._memory | {"input_ids": ids.view(sources, -1, 1)})
        self._keep(found)
        return found["logits"].flatten(0, 2)

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held; every source that is left has as many rows as the others."""
        if not self._move(rows):
            return
        left, counts = self._of_row[rows].unique_consecutive(return_counts=True)
        if len(left) < len(self._memory["encoder_attention_mask"]):
            self._memory = {name: x.index_select(0, left) for name, x in self._memory.items()}
        self._of_row = torch.arange(len(left)).repeat_interleave(counts)


class ExportedPrompts(_Cached):
    """An exported language model that has read its prompts, except their last tokens.

    Attributes:
        first: the last token of each prompt, for the first step. Shape: [B].
    """

    def __init__(self, engine: Engine, stack: nn.Module, prompts: Tokens) -> None:
        lengths = prompts.layout.host_lengths
        if not lengths or min(lengths) < 1:
            raise UsageError("a prompt must have at least one token")
        super().__init__(empty_past(stack, len(lengths)))
        self._engine, self._stack = engine, stack
        self.first = prompts.ids[prompts.layout.last]
        self._mask = torch.zeros(len(lengths), 0, dtype=torch.int64)
        if max(lengths) > 1:
            earlier = torch.ones_like(prompts.ids, dtype=torch.bool)
            earlier[prompts.layout.last] = False
            given = rectangle(Tokens(prompts.ids[earlier], Ragged.of([length - 1 for length in lengths])))
            self._mask = given["attention_mask"]
            self._keep(self._engine.run(MODEL, given | self._past))

    def step(self, ids: Tensor) -> Tensor:
        """Shape: [R] -> [R, V]."""
        self._mask = F.pad(self._mask, (0, 1), value=1)
        found = self._engine.run(MODEL, self._past | {"input_ids": ids.unsqueeze(1), "attention_mask": self._mask})
        self._keep(found)
        return found["logits"].squeeze(1)

    def join(self, prompts: Tokens) -> None:
        """Read more prompts, whose rows follow those that are here; `first` is then theirs."""
        other = ExportedPrompts(self._engine, self._stack, prompts)
        longest = max(self._mask.shape[1], other._mask.shape[1])
        for part in (self, other):  # cells that the mask leaves out, before the first token
            more = longest - part._mask.shape[1]
            part._mask = F.pad(part._mask, (more, 0))
            part._past = {name: F.pad(x, (0, 0, more, 0)) for name, x in part._past.items()}
        self._mask = torch.cat([self._mask, other._mask])
        self._past = {name: torch.cat([x, other._past[name]]) for name, x in self._past.items()}
        self.first = other.first

    def reorder(self, rows: Tensor) -> None:
        """Make row i continue what row `rows[i]` held."""
        if self._move(rows):
            self._mask = self._mask[rows]
