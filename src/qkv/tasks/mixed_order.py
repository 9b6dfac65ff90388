"""The sampler of a mixture: it combines the samplers of its parts, and a position is still one integer."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from qkv.data.order import Pick, Sampler, mix

BITS = 64  # of a position for each part; Python's integers are unbounded


@dataclass(frozen=True, eq=False)
class MixedSampler:
    """A batch of each part at a time. A position concatenates the positions of the parts, the first in the lowest bits.

    The rows of a batch are pairs of a part number and a row number. An epoch ends when every part has been read
    completely; shorter parts have started over by then.

    Attributes:
        parts: the sampler of each part.
        once: stop each part at its end, so that each row is read once, for evaluation.
    """

    parts: tuple[Sampler, ...]
    _: KW_ONLY
    once: bool = False

    def batch(self, position: int) -> Pick:
        """Return the batch at a position. Rows have the shape [B, 2]."""
        places = self._places(position)
        picks = [part.batch(place) for part, place in zip(self.parts, places, strict=True)]
        live = [not self.once or pick.epoch == 0 for pick in picks]
        rows = [np.stack([np.full(len(p.rows), i), p.rows], 1) for i, p in enumerate(picks) if live[i]]
        after = (pick.next_position if on else place for pick, place, on in zip(picks, places, live, strict=True))
        return Pick(
            np.concatenate(rows) if rows else np.empty((0, 2), np.int64),
            sum(place << BITS * i for i, place in enumerate(after)),
            mix(*(pick.seed for pick in picks)),
            min(pick.epoch for pick in picks),
        )

    def epoch_of(self, position: int) -> int:
        """Return how many times every part has been read completely."""
        return min(part.epoch_of(place) for part, place in zip(self.parts, self._places(position), strict=True))

    def fraction(self, position: int) -> float:
        """Return how many epochs of the slowest part are done at a position."""
        return min(part.fraction(place) for part, place in zip(self.parts, self._places(position), strict=True))

    def _places(self, position: int) -> list[int]:
        return [position >> BITS * i & ((1 << BITS) - 1) for i in range(len(self.parts))]
