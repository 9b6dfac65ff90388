import contextlib
import itertools
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import QkvError, UsageError
from qkv.data.loaders import Loader
from qkv.data.order import BucketSampler, WindowSampler

LENGTHS = np.random.default_rng(0).integers(1, 30, 150)
SAMPLERS = [
    BucketSampler(LENGTHS, tokens=100, seed=1, pool=40),
    BucketSampler(LENGTHS, tokens=100, seed=1, shuffle=False),
    BucketSampler(LENGTHS, tokens=100, seed=1, pool=40).shard(1, 3),
    WindowSampler(40, windows=3, seed=1),
]


def noisy(rows, rng):
    """A batch that depends on the rows and on chance, and takes a time that depends on nothing."""
    time.sleep(np.random.random() / 2000)
    return rows.tolist(), rng.random()


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("qkv-loader")]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_workers_change_nothing(sampler):
    runs = [
        list(Loader(sampler, noisy, workers=workers, ahead=ahead, epochs=2).iterate())
        for workers, ahead in [(0, 1), (1, 4), (4, 8), (5, 1)]
    ]
    assert len(runs[0]) > 8
    assert all(run == runs[0] for run in runs)
    assert len({chance for (_, chance), _ in runs[0]}) == len(runs[0])
    assert not threads()


@given(st.sampled_from(SAMPLERS), st.integers(0, 3))
def test_resuming_anywhere_goes_on_exactly(sampler, workers):
    loader = Loader(sampler, lambda rows, rng: (rows.tolist(), rng.random()), workers=workers, epochs=2)
    whole = list(loader.iterate())
    for number, (_, position) in enumerate(whole):
        with contextlib.closing(loader.iterate(position)) as rest:
            assert list(itertools.islice(rest, 3)) == whole[number + 1 : number + 4]


def test_one_pass_sees_every_row_once():
    sampler = BucketSampler(LENGTHS, tokens=100, seed=1, shuffle=False)
    loader = Loader(sampler, lambda rows, _: rows, workers=2, epochs=1)
    rows = np.concatenate([batch for batch, _ in loader.iterate()])
    assert sorted(rows.tolist()) == list(range(len(LENGTHS)))
    shares = [
        batch.tolist()
        for rank in range(4)
        for batch, _ in Loader(sampler.shard(rank, 4), lambda rows, _: rows, epochs=1).iterate()
    ]
    assert sorted(itertools.chain.from_iterable(shares)) == list(range(len(LENGTHS)))


def test_without_epochs_it_never_ends():
    loader = Loader(WindowSampler(4, windows=2, seed=0), lambda rows, _: rows.tolist())
    with contextlib.closing(loader.iterate()) as batches:
        assert len(list(itertools.islice(batches, 50))) == 50


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_error_of_a_worker_is_raised_where_the_batch_is_due(workers):
    def collate(rows, _):
        if 5 in rows:
            raise QkvError("row 5 is broken")
        return rows.tolist()

    loader = Loader(WindowSampler(12, windows=2, seed=0, shuffle=False), collate, workers=workers, epochs=1)
    batches = loader.iterate()
    assert [next(batches)[0] for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(QkvError, match=r"^row 5 is broken$"):
        next(batches)
    assert not threads()


def test_batches_are_made_ahead_but_not_too_far():
    made = []
    loader = Loader(WindowSampler(100, windows=1, seed=0), lambda rows, _: made.append(1), workers=2, ahead=6)
    batches = loader.iterate()
    next(batches)
    deadline = time.monotonic() + 5
    while len(made) < 6 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert len(made) == 6
    batches.close()


@pytest.mark.parametrize("end", ["close", "forget"])
def test_an_iterator_that_ends_early_leaves_no_threads(end):
    started = threading.Event()

    def collate(rows, _):
        started.set()
        return rows

    batches = Loader(WindowSampler(100, windows=1, seed=0), collate, workers=3, ahead=10).iterate()
    next(batches)
    assert started.wait(5)
    assert threads()
    if end == "close":
        batches.close()
    else:
        del batches
    assert not threads()


def test_an_iterator_that_was_never_asked_starts_nothing():
    batches = Loader(WindowSampler(10, windows=1, seed=0), lambda rows, _: rows, workers=3).iterate()
    assert not threads()
    batches.close()


@pytest.mark.parametrize(("name", "value"), [("workers", -1), ("ahead", 0), ("epochs", -1)])
def test_wrong_settings_are_named(name, value):
    with pytest.raises(UsageError, match=f"{name} must be at least"):
        Loader(WindowSampler(10, windows=1, seed=0), lambda rows, _: rows, **{name: value})
