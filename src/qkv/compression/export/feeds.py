"""The inputs of graphs: rectangles of ids with a mask, the memory of a decoder, a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from qkv.common.batch import Tokens
from qkv.compression.export.graphs import cache_shape
from qkv.compression.export.modules import MEMORY, PAST, SIDES


class Engine(Protocol):
    """Computes graphs by name.

    Attributes:
        name: what computes, and its precision.
        searches_only: whether it runs searches and gives no hidden states.
    """

    name: str
    searches_only: bool

    def run(self, graph: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Compute the outputs of a graph; inputs that it does not have are ignored."""

    def start(self, batch: Tokens) -> Any | None:
        """Return a stepper of the engine's own over sources or prompts, or None if it only computes graphs."""


class GraphEngine:
    """Base of engines that only compute graphs."""

    searches_only = False

    def start(self, batch: Tokens) -> None:
        """The steps of a search are graphs too."""


def rectangle(batch: Tokens) -> dict[str, Tensor]:
    """Lay out a batch as other engines read it: rectangles of ids and segments, and a mask."""
    lengths = torch.tensor(batch.layout.host_lengths)
    mask = torch.arange(batch.layout.max_length) < lengths.unsqueeze(1)
    segments = torch.zeros_like(batch.ids) if batch.segments is None else batch.segments
    rows = {"input_ids": batch.ids, "token_type_ids": segments}
    filled = {name: torch.zeros(mask.shape, dtype=torch.int64).masked_scatter(mask, x) for name, x in rows.items()}
    return filled | {"attention_mask": mask.long()}


def memory_of(encoded: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what the decoder reads of the sources."""
    memory = {name: x for name, x in encoded.items() if name.startswith(MEMORY)}
    return memory | {"encoder_attention_mask": source["attention_mask"]}


def empty_past(stack: nn.Module | None, rows: int) -> dict[str, Tensor]:
    """Return the cache before the first token."""
    depth, heads, head_dim = cache_shape(stack)
    return {f"{PAST}.{i}.{side}": torch.zeros(rows, heads, 0, head_dim) for i in range(depth) for side in SIDES}
