"""How often each class is predicted, and the score offsets that make it as frequent as it should be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SWEEPS = 100


def rates(scores_NC: Array) -> Array:
    """Return the share of the rows in which each class scores highest. Shape: [N, C] -> [C]."""
    return np.bincount(scores_NC.argmax(-1), minlength=scores_NC.shape[1]) / len(scores_NC)


def matching_offsets(scores_NC: Array, shares_C: Array) -> Array:
    """Return the offset to add to each class's scores so that it wins its share of the rows. Shape: [N, C], [C] -> [C].

    One class at a time, the offset is a quantile of the margins by which the class loses to the best other class; with
    two classes one pass is enough. Every class is predicted at least once.
    """
    number, classes = scores_NC.shape
    wanted = np.clip(np.round(shares_C * number).astype(int), 1, max(number - 1, 1))
    offsets = np.zeros(classes)
    for _ in range(SWEEPS):
        before = offsets.copy()
        for k in range(classes):
            others = np.delete(scores_NC + offsets, k, axis=1).max(-1)
            lacks = np.sort(others - scores_NC[:, k])
            ends = np.concatenate([lacks, lacks[-1:] + 1])
            offsets[k] = (ends[wanted[k] - 1] + ends[wanted[k]]) / 2
        offsets -= offsets.mean()
        if np.abs(offsets - before).max() < 1e-9:
            break
    return offsets
