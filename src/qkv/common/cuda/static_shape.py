"""Batches of one fixed shape, so that a step over them can be recorded once and replayed.

    a batch     the cat sat | hello | two dogs
    fixed       the cat sat | hello | two dogs | · · | · · |        rows and sequences up to the shape's limits

Filler sequences come last and nothing is asked of them, so a real sequence's states and its loss stay what they were.
Fillers are few: a shape is as large as the largest batches, and batches are made to one token budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.common.batch import IGNORED, Following, Labelled, Masked, Pairs, Spans, Tokens, Translated, layouts
from qkv.common.ragged import Ragged

ROUND = 64  # the limit of targets is a multiple of it


@dataclass(frozen=True)
class StaticShape:
    """The limits of a batch.

    Attributes:
        rows: of each layout.
        sequences: of each layout, fillers included.
        longest: the longest sequence of each layout.
        targets: hidden tokens of a masked batch.
    """

    rows: tuple[int, ...]
    sequences: int
    longest: tuple[int, ...]
    targets: int = 0

    @staticmethod
    def of(batches: Sequence[Any]) -> StaticShape | None:
        """Find the shape that holds batches like these, or None for a kind that has no fixed shape."""
        if not batches or not all(_kind(batch) for batch in batches):
            return None
        sides = [list(column) for column in zip(*map(layouts, batches), strict=True)]
        rows = [[side.num_rows for side in column] for column in sides]
        steady = all(min(n) == max(n) for n in rows)
        longest = [max(side.max_length for side in column) for column in sides]
        number = max(side.num_sequences for side in sides[0])
        targets = max((len(batch.rows) for batch in batches if isinstance(batch, Masked)), default=0)
        return _shape([max(n) for n in rows], number + number // 8, longest, targets + targets // 16, steady)

    @staticmethod
    def read(facts: Mapping[str, Any]) -> StaticShape:
        """Take a shape back from JSON."""
        return StaticShape(tuple(facts["rows"]), facts["sequences"], tuple(facts["longest"]), facts["targets"])

    def grown(self, batch: Any) -> StaticShape:
        """Return the shape that holds another batch too."""
        sides = layouts(batch)
        steady = all(side.num_rows == limit for side, limit in zip(sides, self.rows, strict=True))
        longest = [max(side.max_length, most) for side, most in zip(sides, self.longest, strict=True)]
        number, targets = sides[0].num_sequences, len(batch.rows) if isinstance(batch, Masked) else 0
        rows = [max(side.num_rows, limit) for side, limit in zip(sides, self.rows, strict=True)]
        return _shape(rows, max(number, self.sequences), longest, max(targets, self.targets), steady)

    def fill(self, batch: Any) -> Any | None:
        """Bring a batch to this shape, or return None where it is too large."""
        sides = layouts(batch)
        number = sides[0].num_sequences
        lacking = [limit - side.num_rows for side, limit in zip(sides, self.rows, strict=True)]
        long = any(side.max_length > most for side, most in zip(sides, self.longest, strict=True))
        needed = max(-(-n // most) for n, most in zip(lacking, self.longest, strict=True))
        asked = len(batch.rows) if isinstance(batch, Masked) else 0
        if long or min(lacking) < 0 or number + needed > self.sequences or asked > self.targets:
            return None
        if needed and min(lacking) < needed:
            return None  # a filler of no rows on one side would ask nothing of something
        filled = [
            _filled(side, n, needed, self.sequences, most)
            for side, n, most in zip(sides, lacking, self.longest, strict=True)
        ]
        return self._put(batch, filled)

    def _put(self, batch: Any, filled: list[Ragged]) -> Any:
        if isinstance(batch, Translated):
            source, target = (
                _tokens(t, lay) for t, lay in zip((batch.pairs.source, batch.pairs.target), filled, strict=True)
            )
            return Translated(Pairs(source, target), _pad(batch.wanted, self.rows[1], IGNORED))
        if isinstance(batch, Following):
            return Following(_tokens(batch.tokens, filled[0]), _pad(batch.wanted, self.rows[0], IGNORED))
        if isinstance(batch, Masked):
            pairs = None if batch.pairs is None else _pad(batch.pairs, self.sequences, IGNORED)
            free = np.ones(self.rows[0], dtype=bool)  # rows that are not hidden: each is asked once, if they are enough
            free[batch.rows.numpy()] = False
            more = np.resize(free.nonzero()[0], self.targets - len(batch.rows))
            rows, real = torch.cat([batch.rows, torch.from_numpy(more)]), torch.tensor(len(batch.tokens.ids))
            wanted = _pad(batch.wanted, self.targets, IGNORED)
            return Masked(_tokens(batch.tokens, filled[0]), rows, wanted, pairs, real)
        if isinstance(batch, Spans):
            ends = (_pad(side, self.sequences, IGNORED) for side in (batch.starts, batch.ends))
            return Spans(_tokens(batch.tokens, filled[0]), *ends)
        inputs, labels = batch.inputs, batch.labels
        length = self.rows[0] if len(labels) == inputs.layout.num_rows else self.sequences
        return replace(batch, inputs=_tokens(inputs, filled[0]), labels=_pad(labels, length, IGNORED))


def _shape(rows: list[int], sequences: int, longest: list[int], targets: int, steady: bool) -> StaticShape:
    """Round limits up, with room for fillers where the number of rows is not steady.

    A batch may lack any number of its rows. With s spare rows on a side of at most n, fillers no longer than m and none
    empty can take them if (n + s) / m <= s.
    """
    longest = [max(up(m, 8), 8) for m in longest]
    spare = 0 if steady else max(-(-(n + 8) // (m - 1)) + 1 for n, m in zip(rows, longest, strict=True))
    limits = [n if steady else up(n + spare, 8) for n in rows]
    return StaticShape(tuple(limits), up(sequences + spare, 8), tuple(longest), up(targets, ROUND))


def _kind(batch: Any) -> bool:
    if isinstance(batch, Labelled):
        # one label for each token or each sequence: which of the two must be seen from their number
        return isinstance(batch.inputs, Tokens) and batch.inputs.layout.max_length > 1
    return isinstance(batch, Translated | Following | Masked | Spans)


def _filled(side: Ragged, lacking: int, number: int, sequences: int, longest: int) -> Ragged:
    """Add `number` sequences that share the lacking rows, and empty ones up to `sequences`."""
    share, more = divmod(lacking, number) if number else (0, 0)
    fillers = [share + (i < more) for i in range(number)]
    lengths = [*side.host_lengths, *fillers]
    lengths += [0] * (sequences - len(lengths))
    sizes = torch.tensor(lengths, dtype=torch.int32)
    offsets = F.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
    return Ragged(offsets=offsets, lengths=sizes, max_length=longest, num_rows=side.num_rows + lacking)


def _tokens(tokens: Tokens, layout: Ragged) -> Tokens:
    segments, positions = (
        None if row is None else _pad(row, layout.num_rows, 0) for row in (tokens.segments, tokens.positions)
    )
    return Tokens(_pad(tokens.ids, layout.num_rows, 0), layout, segments, positions)


def _pad(x: Tensor, length: int, value: int) -> Tensor:
    """Lengthen the first dimension."""
    return torch.cat([x, x.new_full((length - len(x), *x.shape[1:]), value)])


def up(number: int, multiple: int) -> int:
    """Round up."""
    return -(-number // multiple) * multiple
