"""Clustering: k-means, or average linkage up to a distance, both on unit vectors, so that only angles count.

The table of all distances is never held in memory: k-means compares blocks of vectors with the centres, and the mean
distance of two groups of unit vectors follows from their sums: 1 - (Σa · Σb) / (|A| |B|).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.common.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESTARTS = 8
ROUNDS = 300  # of one k-means: far more than it takes
CELLS = 1 << 22  # distances computed at once: 32 MB
TIE = 1e-9  # distances that differ less are the same


@dataclass(frozen=True)
class Group:
    """The rows of one cluster.

    Attributes:
        rows: the row numbers, most central first.
        cosines: the cosine of each row with the mean of the group, in the same order.
    """

    rows: list[int]
    cosines: list[float]

    def to_dict(self, number: int, texts: Sequence[tuple[int, str]]) -> dict[str, Any]:
        """Return group `number` for JSON; `texts` are the lines that the rows stand for, each with its number."""
        named = [(*texts[row], cosine) for row, cosine in zip(self.rows, self.cosines, strict=True)]
        members = [{"line": line, "text": text, "cosine": cosine} for line, text, cosine in named]
        return {"group": number, "size": len(members), "central": members[0]["text"], "members": members}


def cluster(
    vectors: NDArray[Any], *, groups: int | None = None, distance: float | None = None, seed: int = 0
) -> list[Group]:
    """Cluster vectors; the largest group comes first.

    Args:
        vectors: Shape: [rows, D].
        groups: the number of groups, for k-means.
        distance: instead, merge groups while the mean cosine distance between them is at most this.
        seed: for the random start of k-means.
    """
    if (groups is None) == (distance is None):
        raise UsageError("give either the number of groups or a distance, not both")
    x_ND = unit(vectors)
    labels = kmeans(x_ND, groups, seed=seed) if groups is not None else linkage(x_ND, float(distance or 0.0))
    parts = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return sorted((_group(x_ND, part) for part in parts), key=lambda group: (-len(group.rows), min(group.rows)))


def unit(vectors: NDArray[Any]) -> Floats:
    """Scale each row to length 1; a row of zeros stays."""
    x_ND = np.asarray(vectors, dtype=np.float64)
    return x_ND / np.maximum(np.linalg.norm(x_ND, axis=1, keepdims=True), 1e-12)


def kmeans(x_ND: Floats, groups: int, *, seed: int = 0, restarts: int = RESTARTS) -> Ints:
    """Return the group of each row: the best of several runs of Lloyd's algorithm."""
    if not 1 <= groups <= len(x_ND):
        raise UsageError(f"groups must be between 1 and the {len(x_ND)} texts, got {groups}")
    rng = np.random.default_rng(seed)
    runs = [lloyd(x_ND, _spread(x_ND, groups, rng)) for _ in range(restarts)]
    return min(runs, key=lambda run: run[1])[0]


def lloyd(x_ND: Floats, centres_KD: Floats) -> tuple[Ints, float]:
    """Move centres to the means of their rows until no row changes; return labels and Σ squared distance."""
    labels, near = _nearest(x_ND, centres_KD)
    for _ in range(ROUNDS):
        sizes = np.bincount(labels, minlength=len(centres_KD))
        for empty in np.flatnonzero(sizes == 0):  # it takes the row that is farthest from its centre
            far = int(np.where(sizes[labels] > 1, near, -1.0).argmax())
            sizes[labels[far]] -= 1
            labels[far], near[far], sizes[empty] = empty, 0.0, 1
        sums_KD = np.zeros_like(centres_KD)
        np.add.at(sums_KD, labels, x_ND)
        found, near = _nearest(x_ND, sums_KD / sizes[:, None])
        if (found == labels).all():
            break
        labels = found
    return labels, float(near.sum())


def linkage(x_ND: Floats, distance: float) -> Ints:
    """Return the group of each row after joining the two nearest groups while their mean distance is small enough.

    A chain of nearest neighbours finds the same groups without looking at all pairs (Murtagh 1983): each link is the
    nearest to the one before, and the last two are each other's. Two that are too far apart are done, as joining
    others brings nothing nearer.
    """
    sums_ND, sizes, labels = x_ND.copy(), np.ones(len(x_ND)), np.arange(len(x_ND))
    alive = np.ones(len(x_ND), dtype=bool)
    chain: list[int] = []
    while alive.any():
        if not chain:
            chain = [int(alive.argmax())]
        here = chain[-1]
        far = np.where(alive, 1 - (sums_ND @ sums_ND[here]) / (sizes * sizes[here]), np.inf)
        far[here] = np.inf
        nearest = int(far.argmin())
        if len(chain) > 1 and far[chain[-2]] <= far[nearest] + TIE:
            nearest = chain[-2]
        if far[nearest] > distance + TIE:
            alive[chain.pop()] = False  # nothing is near enough, now or later
        elif len(chain) > 1 and nearest == chain[-2]:
            del chain[-2:]
            sums_ND[here] += sums_ND[nearest]
            sizes[here] += sizes[nearest]
            labels[labels == nearest] = here
            alive[nearest] = False
        else:
            chain.append(nearest)
    return labels


def _group(x_ND: Floats, rows: Ints) -> Group:
    """Order the rows of a group by how near they are to its mean."""
    cosines = x_ND[rows] @ unit(x_ND[rows].mean(0, keepdims=True))[0]
    order = np.argsort(-np.round(cosines, 9), kind="stable")
    return Group(rows[order].tolist(), cosines[order].tolist())


def _spread(x_ND: Floats, groups: int, rng: np.random.Generator) -> Floats:
    """Draw first centres far from each other: k-means++ (Arthur & Vassilvitskii 2007)."""
    chosen = [int(rng.integers(len(x_ND)))]
    near = np.full(len(x_ND), np.inf)
    while len(chosen) < groups:
        near = np.minimum(near, ((x_ND - x_ND[chosen[-1]]) ** 2).sum(1))
        total = near.sum()
        chosen.append(int(rng.choice(len(x_ND), p=near / total if total > 0 else None)))
    return x_ND[chosen]


def _nearest(x_ND: Floats, centres_KD: Floats) -> tuple[Ints, Floats]:
    """Return the nearest centre of each row and the squared distance to it."""
    labels, near = np.empty(len(x_ND), np.int64), np.empty(len(x_ND))
    step = max(CELLS // len(centres_KD), 1)
    for start in range(0, len(x_ND), step):
        block_BD = x_ND[start : start + step]
        far_BK = (centres_KD**2).sum(1) - 2 * block_BD @ centres_KD.T
        best = far_BK.argmin(1)
        labels[start : start + step] = best
        near[start : start + step] = np.take_along_axis(far_BK, best[:, None], 1)[:, 0] + (block_BD**2).sum(1)
    return labels, np.maximum(near, 0.0)
