"""The order of a mixture: the orders of its parts side by side, and still one integer for a position."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from qkv.data.order import Pick, Sampler, mix

BITS = 64  # of a position for each part; Python's integers have no end


@dataclass(frozen=True, eq=False)
class MixedSampler:
    """A batch of each part at a time. A position holds the parts' positions behind each other, the first lowest.

    The rows of a batch are pairs of a part's number and a row of it. An epoch ends when every part has been read to its
    end; shorter parts have begun anew by then.

    Attributes:
        parts: the order of each.
        once: a part that was read to its end brings nothing more, so that each row is met once, for evaluation.
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
        """Return how often every part has been read to its end."""
        return min(part.epoch_of(place) for part, place in zip(self.parts, self._places(position), strict=True))

    def fraction(self, position: int) -> float:
        """Return how many epochs of the slowest part lie before a position."""
        return min(part.fraction(place) for part, place in zip(self.parts, self._places(position), strict=True))

    def _places(self, position: int) -> list[int]:
        return [position >> BITS * i & ((1 << BITS) - 1) for i in range(len(self.parts))]
