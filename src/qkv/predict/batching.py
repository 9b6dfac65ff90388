"""Sequences of any lengths to batches of a token budget, long ones to windows, and what cannot be one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from qkv.common.batch import Pairs, Tokens, check
from qkv.common.errors import UsageError
from qkv.common.unicode import well_formed
from qkv.tokenizers.windows import SHARED

Ids = Sequence[Sequence[int]]
TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 32_768}


def batches(sizes: Sequence[int], device: torch.device) -> Iterator[list[int]]:
    """Cut the rows into batches of a token budget, longest first, so that memory runs out early or never."""
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
    """Say what is wrong with which sequence, in the caller's own numbers, before any work is done."""
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


def position_limit(config: Any) -> int | None:
    """Return the longest sequence that the positions can place: a table of learned ones has an end."""
    position = getattr(config, "position", None)
    return int(config.max_length) if position is not None and position.name == "learned" else None


def readable(texts: Sequence[str]) -> list[str]:
    """Replace lone surrogates, which no tokenizer takes."""
    if isinstance(texts, str):
        raise UsageError("texts must be a list of strings, not one string")
    return [well_formed(text) for text in texts]


def window_rows(inside: Sequence[bool], limit: int | None) -> list[list[int]]:
    """Return the tokens of each window over one text; the special tokens around the text are in all of them.

    Args:
        inside: which tokens are the text's own.
        limit: the most tokens of a window, or None for any number.
    """
    size = len(inside)
    if limit is None or size <= limit:
        return [list(range(size))]
    first, last = inside.index(True), size - list(inside)[::-1].index(True)
    room = limit - (size - (last - first))
    if room < 1:
        raise UsageError(f"the special tokens alone take {limit - room}, and the model's max_length is {limit}")
    shared = min(SHARED, room // 4)
    before, after = list(range(first)), list(range(last, size))
    starts = range(first, last - shared, room - shared)  # the last window is the first that reaches the end
    return [[*before, *range(start, min(start + room, last)), *after] for start in starts]


def best_places(windows: Sequence[Sequence[int]]) -> dict[int, tuple[int, int]]:
    """Return for each token the window where it has most company on its poorer side, and its place in it."""
    best: dict[int, tuple[int, int, int]] = {}
    for window, rows in enumerate(windows):
        for place, row in enumerate(rows):
            company = min(place, len(rows) - 1 - place)
            if row not in best or company > best[row][0]:
                best[row] = company, window, place
    return {row: (window, place) for row, (_, window, place) in best.items()}
