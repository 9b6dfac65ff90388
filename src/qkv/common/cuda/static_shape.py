"""Batches of one fixed shape, so that a step over them can be recorded once and replayed.

    a batch     the cat sat | hello | two dogs
    fixed       the cat sat | hello | two dogs | · · | · · |        rows and sequences up to the shape's limits

Filler sequences come last and have no targets, so the states and the loss of real sequences do not change. There are
few fillers: a shape is as large as the largest batches, and all batches have the same token budget. Batches of images
have no fillers, which would be mixed into real images: only batches of as many images fit. The batch of a mixture is a
dict of batches, and its `MixedShape` has a shape for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F

from qkv.common.batch import Batch, layouts
from qkv.common.ragged import Ragged

B = TypeVar("B", bound=Batch)
ROUND = 64  # the limit of targets is a multiple of it


@dataclass(frozen=True)
class StaticShape:
    """The limits of a batch.

    Attributes:
        rows: of each layout.
        sequences: of each layout, fillers included; of a batch without layouts, the number of images.
        longest: the longest sequence of each layout.
        targets: see `Batch.num_targets`.
    """

    rows: tuple[int, ...]
    sequences: int
    longest: tuple[int, ...]
    targets: int = 0

    @staticmethod
    def of(batches: Sequence[object]) -> Shape | None:
        """Find the shape that holds batches like these, or None if one of them has no static shape."""
        mixed = [batch for batch in batches if isinstance(batch, dict)]
        if mixed:
            return MixedShape.of(mixed) if len(mixed) == len(batches) else None
        static = [batch for batch in batches if isinstance(batch, Batch) and batch.is_static]
        if not batches or len(static) < len(batches):
            return None
        sides = [list(column) for column in zip(*map(layouts, static), strict=True)]
        if not sides:
            return StaticShape((), max(batch.size.amount for batch in static), ())
        rows = [[side.num_rows for side in column] for column in sides]
        steady = all(min(n) == max(n) for n in rows)
        longest = [max(side.max_length for side in column) for column in sides]
        number = max(side.num_sequences for side in sides[0])
        targets = max(batch.num_targets for batch in static)
        return _shape([max(n) for n in rows], number + number // 8, longest, targets + targets // 16, steady)

    @staticmethod
    def read(facts: Mapping[str, Any]) -> Shape:
        """Read a shape from JSON."""
        if "parts" in facts:
            return MixedShape({name: StaticShape.read(part) for name, part in facts["parts"].items()})
        return StaticShape(tuple(facts["rows"]), facts["sequences"], tuple(facts["longest"]), facts["targets"])

    def grown(self, batch: Batch) -> StaticShape:
        """Return the shape that holds another batch too; where nothing can hold it, the same shape."""
        sides = layouts(batch)
        if not sides:
            return self
        steady = all(side.num_rows == limit for side, limit in zip(sides, self.rows, strict=True))
        longest = [max(side.max_length, most) for side, most in zip(sides, self.longest, strict=True)]
        rows = [max(side.num_rows, limit) for side, limit in zip(sides, self.rows, strict=True)]
        sequences, targets = max(sides[0].num_sequences, self.sequences), max(batch.num_targets, self.targets)
        return _shape(rows, sequences, longest, targets, steady)

    def fill(self, batch: B) -> B | None:
        """Bring a batch to this shape, or return None where it does not fit."""
        sides = layouts(batch)
        if not sides:
            return batch if batch.size.amount == self.sequences else None
        number = sides[0].num_sequences
        lacking = [limit - side.num_rows for side, limit in zip(sides, self.rows, strict=True)]
        long = any(side.max_length > most for side, most in zip(sides, self.longest, strict=True))
        needed = max(-(-n // most) for n, most in zip(lacking, self.longest, strict=True))
        if long or min(lacking) < 0 or number + needed > self.sequences or batch.num_targets > self.targets:
            return None
        if needed and min(lacking) < needed:
            return None  # a filler with no rows on one side would attend to nothing
        filled = [
            _filled(side, n, needed, self.sequences, most)
            for side, n, most in zip(sides, lacking, self.longest, strict=True)
        ]
        return batch.filled(self, filled)


@dataclass(frozen=True)
class MixedShape:
    """The limits of a mixture's batches.

    Attributes:
        parts: the shape of each batch, by its name.
    """

    parts: Mapping[str, Any]

    @staticmethod
    def of(batches: Sequence[Mapping[str, Any]]) -> MixedShape | None:
        """Find the shape of each part, or None if one has none, or if a step lacks one."""
        names = batches[0].keys()
        if any(batch.keys() != names for batch in batches):
            return None
        found = {name: StaticShape.of([batch[name] for batch in batches]) for name in names}
        return None if None in found.values() else MixedShape(found)

    def grown(self, batch: Mapping[str, Any]) -> MixedShape:
        """Return the shape that holds another batch too; where it has other parts, the same shape."""
        if batch.keys() != self.parts.keys():
            return self
        pairs = {name: (shape, batch[name]) for name, shape in self.parts.items()}
        return MixedShape({n: s if s.fill(part) is not None else s.grown(part) for n, (s, part) in pairs.items()})

    def fill(self, batch: Mapping[str, Any]) -> dict[str, Any] | None:
        """Bring each part to its shape, or return None where one does not fit."""
        if batch.keys() != self.parts.keys():
            return None
        found = {name: shape.fill(batch[name]) for name, shape in self.parts.items()}
        return None if None in found.values() else found


Shape = StaticShape | MixedShape


def _shape(rows: list[int], sequences: int, longest: list[int], targets: int, steady: bool) -> StaticShape:
    """Round limits up, with room for fillers where the number of rows is not steady.

    A batch may lack any number of its rows. With s spare rows on a side of at most n, fillers no longer than m and none
    empty can take them if (n + s) / m <= s.
    """
    longest = [max(up(m, 8), 8) for m in longest]
    spare = 0 if steady else max(-(-(n + 8) // (m - 1)) + 1 for n, m in zip(rows, longest, strict=True))
    limits = [n if steady else up(n + spare, 8) for n in rows]
    return StaticShape(tuple(limits), up(sequences + spare, 8), tuple(longest), up(targets, ROUND))


def _filled(side: Ragged, lacking: int, number: int, sequences: int, longest: int) -> Ragged:
    """Add `number` sequences that share the lacking rows, and empty ones up to `sequences`."""
    share, more = divmod(lacking, number) if number else (0, 0)
    fillers = [share + (i < more) for i in range(number)]
    lengths = [*side.host_lengths, *fillers]
    lengths += [0] * (sequences - len(lengths))
    sizes = torch.tensor(lengths, dtype=torch.int32)
    offsets = F.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
    return Ragged(offsets=offsets, lengths=sizes, max_length=longest, num_rows=side.num_rows + lacking)


def up(number: int, multiple: int) -> int:
    """Round up."""
    return -(-number // multiple) * multiple
