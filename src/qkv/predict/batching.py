"""Pack sequences of any length into batches with a token budget, and check them first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from qkv.common.batch import Pairs, Tokens, check
from qkv.common.errors import UsageError
from qkv.models.position import position_limit

Ids = Sequence[Sequence[int]]
TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 32_768}


def batches(sizes: Sequence[int], device: torch.device) -> Iterator[list[int]]:
    """Split the rows into batches with a token budget, longest first, so that memory runs out early or never."""
    budget = TOKENS_PER_BATCH[device.type if device.type in TOKENS_PER_BATCH else "cpu"]
    rows: list[int] = []
    tokens = 0
    for row in sorted(range(len(sizes)), key=lambda row: -sizes[row]):
        if rows and tokens + sizes[row] > budget:
            yield rows
            rows, tokens = [], 0
        rows.append(row)
        tokens += sizes[row]
    if rows:
        yield rows


def pack(
    rows: list[int], ids: Ids, target_ids: Ids | None, segments: Ids | None, device: torch.device
) -> Tokens | Pairs:
    """Make a batch of some of the sequences."""
    part = None if segments is None else [segments[row] for row in rows]
    source = Tokens.of([ids[row] for row in rows], segments=part, device=device)
    if target_ids is None:
        return source
    return Pairs(source, Tokens.of([target_ids[row] for row in rows], device=device))


def check_ids(config: Any, ids: Ids, target_ids: Ids | None, segments: Ids | None) -> None:
    """Raise an error that names the bad sequence by the caller's own index, before any work is done."""
    limit = position_limit(config)
    for sequences in (ids, target_ids):
        if sequences is None:
            continue
        check(sequences, "id", config.vocab_size)
        for number, sequence in enumerate(sequences):
            if limit is not None and len(sequence) > limit:
                got = f"sequence {number} has {len(sequence)} tokens"
                raise UsageError(f"{got}, and the model's max_length is {limit}")
    if segments is not None:
        if [len(s) for s in segments] != [len(s) for s in ids]:
            raise UsageError("segments must have the same lengths as the ids")
        check(segments, "segment", config.num_segments)
