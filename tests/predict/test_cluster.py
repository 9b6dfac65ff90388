"""Groups against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_rand_score

from qkv.common.errors import UsageError
from qkv.predict import cluster as module
from qkv.predict.cluster import cluster, kmeans, linkage, lloyd, unit


def points(seed: int, number: int = 60, dim: int = 5) -> np.ndarray[Any, Any]:
    return unit(np.random.default_rng(seed).normal(size=(number, dim)))


@pytest.mark.parametrize("seed", range(6))
def test_lloyd_ends_where_scikit_learn_does(seed: int) -> None:
    x = points(seed)
    start = x[:4]
    theirs = KMeans(4, init=start, n_init=1, tol=0, max_iter=1000, algorithm="lloyd").fit(x)
    labels, total = lloyd(x, start)
    assert (labels == theirs.labels_).all()
    assert total == pytest.approx(theirs.inertia_)


def test_restarts_find_as_good_an_answer_as_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.vstack([unit(points(k, 30, 3) * 0.3 + centre) for k, centre in enumerate(np.eye(3) * 2)])
    theirs = KMeans(3, n_init=10, random_state=0).fit(x)
    monkeypatch.setattr(module, "CELLS", 7)  # blocks of two rows give the same
    labels = kmeans(x, 3, seed=1)
    assert adjusted_rand_score(labels, theirs.labels_) == 1
    assert (kmeans(x, 3, seed=1) == labels).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("distance", [0.0, 0.1, 0.35, 0.7, 1.0, 2.0])
def test_linkage_is_scikit_learns(seed: int, distance: float) -> None:
    x = points(seed, 40, 3)
    theirs = AgglomerativeClustering(None, metric="cosine", linkage="average", distance_threshold=distance).fit(x)
    assert adjusted_rand_score(linkage(x, distance), theirs.labels_) == 1


@given(
    rows=st.lists(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=2), min_size=1, max_size=12),
    data=st.data(),
)
def test_every_row_is_in_one_group_whatever_repeats(rows: list[list[float]], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(rows)))
    for options in ({"groups": count}, {"distance": 0.3}):
        found = cluster(np.array(rows), **options)  # type: ignore[arg-type]
        assert sorted(row for group in found for row in group.rows) == list(range(len(rows)))
        assert [len(g.rows) for g in found] == sorted((len(g.rows) for g in found), reverse=True)
        assert all(group.cosines[0] >= max(group.cosines) - 1e-8 for group in found)
    different = len(np.unique(unit(np.array(rows)).round(9), axis=0))  # what is the same cannot be told apart
    assert len(cluster(np.array(rows), groups=count)) == min(count, different)


def test_the_first_of_a_group_is_its_most_central() -> None:
    angles = np.radians([0, 10, 20, 180, 200])
    found = cluster(np.stack([np.cos(angles), np.sin(angles)], 1), distance=0.4)
    assert [group.rows for group in found] == [[1, 0, 2], [3, 4]]


def test_wrong_numbers_are_sentences() -> None:
    x = points(0, 4)
    with pytest.raises(UsageError, match="groups must be between 1 and the 4 texts, got 5"):
        cluster(x, groups=5)
    with pytest.raises(UsageError, match="not both"):
        cluster(x)
    with pytest.raises(UsageError, match="not both"):
        cluster(x, groups=2, distance=0.1)
