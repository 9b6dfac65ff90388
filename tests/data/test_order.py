import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.errors import UsageError
from qkv.data.order import BucketSampler, Permutation, WindowSampler, mix


def order(n, seed):
    return Permutation(n, seed)(np.arange(n))


@given(st.integers(1, 5000), st.integers(0, 2**63))
def test_every_number_comes_once(n, seed):
    assert np.array_equal(np.sort(order(n, seed)), np.arange(n))


def test_every_number_comes_once_for_each_small_n():
    for n in range(1, 70):
        assert sorted(order(n, n).tolist()) == list(range(n))


@given(st.integers(2, 2**40), st.integers(0, 2**63), st.data())
def test_large_orders_stay_inside_and_do_not_collide(n, seed, data):
    start = data.draw(st.integers(0, n - 1))
    found = Permutation(n, seed)(np.arange(start, min(n, start + 3000)))
    assert found.min() >= 0
    assert found.max() < n
    assert len(np.unique(found)) == len(found)


def test_an_order_looks_random():
    n, seeds = 37, 1500
    orders = np.array([order(n, seed) for seed in range(seeds)])
    counts = np.stack([(orders == value).sum(0) for value in range(n)])
    assert abs(_excess(counts, (n - 1) ** 2)) < 4  # every number stands everywhere equally often
    steps = np.bincount((orders[:, 1:] - orders[:, :-1]).ravel() % n, minlength=n)[1:]
    assert abs(_excess(steps, n - 2)) < 4  # what follows a number does not depend on it
    big = order(100_003, 5)
    assert abs(np.corrcoef(big, np.arange(len(big)))[0, 1]) < 4 / np.sqrt(len(big))
    assert abs(np.corrcoef(big[1:], big[:-1])[0, 1]) < 4 / np.sqrt(len(big))


def _excess(counts, freedom):
    expected = counts.mean()
    return (((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


def test_orders_differ_by_seed_and_never_change():
    assert len({tuple(order(50, seed)) for seed in range(200)}) == 200
    # A recorded order: a change here would change every run that is resumed.
    assert order(10, 0).tolist() == RECORDED
    assert mix(1, 2) != mix(12) != mix(2, 1)
    assert mix(np.int64(7)) == mix(7)


RECORDED = [0, 4, 6, 2, 1, 7, 3, 5, 8, 9]


def lognormal(rows, seed=0):
    return np.clip(np.random.default_rng(seed).lognormal(3.2, 0.6, rows), 1, 500).astype(np.int32)


def epoch(sampler, position=0):
    """The picks of one epoch."""
    picks, number = [], sampler.epoch_of(position)
    while (pick := sampler.batch(position)).epoch == number:
        picks.append(pick)
        position = pick.next_position
    assert sampler.epoch_of(position) == number + 1
    return picks


SAMPLERS = st.builds(
    lambda lengths, tokens, seed, pool, most, shuffle: BucketSampler(
        np.array(lengths), tokens=tokens, seed=seed, pool=pool, max_sequences=most, shuffle=shuffle
    ),
    st.lists(st.integers(0, 30), min_size=1, max_size=60),
    st.integers(1, 80),
    st.integers(0, 1000),
    st.one_of(st.none(), st.integers(1, 70)),
    st.one_of(st.none(), st.integers(1, 5)),
    st.booleans(),
)


@given(SAMPLERS)
def test_every_row_once_an_epoch_within_the_budget(sampler):
    position = 0
    for _ in range(2):
        picks = epoch(sampler, position)
        rows = np.concatenate([pick.rows for pick in picks])
        assert sorted(rows.tolist()) == list(range(len(sampler.lengths)))
        for pick in picks:
            assert len(pick.rows) == 1 or sampler.lengths[pick.rows].sum() <= sampler.tokens
            assert len(pick.rows) <= (sampler.max_sequences or len(rows))
        position = picks[-1].next_position


@given(SAMPLERS)
def test_a_position_says_all(sampler):
    """A new sampler at any position goes on as the first one did; progress rises from 0 to the number of epochs."""
    position, fractions = 0, []
    for _ in range(30):
        fresh = BucketSampler(
            sampler.lengths.tolist(), tokens=sampler.tokens, seed=sampler.seed, pool=sampler.pool,
            max_sequences=sampler.max_sequences, shuffle=sampler.shuffle,
        )  # fmt: skip
        one, two = sampler.batch(position), fresh.batch(position)
        assert one.rows.tolist() == two.rows.tolist()
        assert one[1:] == two[1:]
        fractions.append(fresh.fraction(position))
        assert int(fractions[-1] + 1e-9) == one.epoch == fresh.epoch_of(position)
        position = one.next_position
    assert fractions[0] == 0
    assert all(first < second for first, second in itertools.pairwise(fractions))


@given(SAMPLERS, st.integers(1, 5))
def test_processes_share_one_order(sampler, world):
    ranks = [sampler.shard(rank, world) for rank in range(world)]
    single, shared = 0, 0
    for _ in range(3):
        picks = [rank.batch(shared) for rank in ranks]
        for pick in picks:
            expected = sampler.batch(single)
            assert pick.rows.tolist() == expected.rows.tolist()
            assert (pick.seed, pick.epoch) == (expected.seed, expected.epoch)
            single = expected.next_position
        (shared,) = {pick.next_position for pick in picks}
        assert shared == single


@pytest.mark.parametrize("tokens", [1000, 4096, 65536])
def test_batches_are_full(tokens):
    lengths = lognormal(50_000)
    picks = epoch(BucketSampler(lengths, tokens=tokens, seed=1))
    sizes = [lengths[pick.rows].sum() for pick in picks]
    assert max(sizes) <= tokens
    assert np.mean(sizes) >= 0.95 * tokens


def test_rows_of_a_batch_are_of_like_length_and_batches_come_shuffled():
    lengths = lognormal(20_000)
    picks = epoch(BucketSampler(lengths, tokens=2048, seed=1))
    spread = np.mean([np.ptp(lengths[pick.rows]) for pick in picks])
    assert spread < np.std(lengths) / 4
    means = np.array([lengths[pick.rows].mean() for pick in picks])
    assert abs(np.corrcoef(means[1:], means[:-1])[0, 1]) < 0.2


def test_orders_differ_by_seed_and_epoch():
    lengths = lognormal(500)
    sampler = BucketSampler(lengths, tokens=400, seed=1)
    first = epoch(sampler)
    second = epoch(sampler, first[-1].next_position)
    other = epoch(BucketSampler(lengths, tokens=400, seed=2))
    rows = [[pick.rows.tolist() for pick in picks] for picks in (first, second, other)]
    assert rows[0] != rows[1]
    assert rows[0] != rows[2]
    seeds = [pick.seed for picks in (first, second, other) for pick in picks]
    assert len(set(seeds)) == len(seeds)


def test_without_shuffling_rows_keep_their_order_but_for_their_pool():
    sampler = BucketSampler([3, 1, 2, 9, 8, 7], tokens=10, seed=0, pool=3, shuffle=False)
    assert [pick.rows.tolist() for pick in epoch(sampler)] == [[1, 2, 0], [5], [4], [3]]


def test_a_batch_may_be_changed_by_its_reader():
    sampler = BucketSampler([1] * 10, tokens=4, seed=0)
    before = sampler.batch(0).rows.tolist()
    sampler.batch(0).rows[:] = -1
    assert sampler.batch(0).rows.tolist() == before


def test_wrong_settings_are_named():
    with pytest.raises(UsageError, match="there are no rows"):
        BucketSampler([], tokens=5, seed=0)
    with pytest.raises(UsageError, match="tokens must be at least 1, got 0"):
        BucketSampler([1], tokens=0, seed=0)
    with pytest.raises(UsageError, match="rank 2 does not exist: 2 processes have the ranks 0 to 1"):
        BucketSampler([1], tokens=1, seed=0).shard(2, 2)
    with pytest.raises(UsageError, match="a batch cannot have 4 windows: the stream has 3"):
        WindowSampler(3, windows=4, seed=0)
    for position in (-1, 7):
        with pytest.raises(UsageError, match=f"position {position} does not exist"):
            BucketSampler([1, 1], tokens=1, seed=0).batch(position)
    with pytest.raises(UsageError, match="position -1 does not exist"):
        WindowSampler(3, windows=1, seed=0).batch(-1)


@given(st.integers(1, 60), st.data(), st.integers(0, 99), st.booleans())
def test_windows_come_at_most_once_and_all_of_them_in_order(total, data, seed, shuffle):
    windows = data.draw(st.integers(1, total))
    sampler = WindowSampler(total, windows=windows, seed=seed, shuffle=shuffle)
    picks = epoch(sampler)
    left = [] if shuffle or not total % windows else [total % windows]
    assert [len(pick.rows) for pick in picks] == [windows] * (total // windows) + left
    rows = np.concatenate([pick.rows for pick in picks])
    assert len(set(rows.tolist())) == len(rows)
    assert set(rows.tolist()) <= set(range(total))
    assert shuffle or rows.tolist() == list(range(total))
    assert [sampler.fraction(n) for n in range(len(picks) + 1)] == [n / len(picks) for n in range(len(picks) + 1)]


@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 8), st.integers(0, 99))
def test_windows_of_an_epoch_begin_later_and_end_within_the_stream(total, length, rest, seed):
    tokens = total * length + min(rest, length - 1)
    sampler = WindowSampler(total, windows=1, seed=seed, length=length, tokens=tokens)
    starts = [sorted(int(sampler.batch(e * total + n).rows[0]) for n in range(total)) for e in range(30)]
    for one in starts:
        assert {start % length for start in one[:-1]} <= {one[0] % length}  # all by as many tokens, but for the last
        assert one == sorted({min(n * length + one[0], tokens - length) for n in range(total)}) or total == 1
        assert one[-1] + length <= tokens
    if total > 1 and length > 1:
        assert len({one[0] for one in starts}) > 1
    plain = WindowSampler(total, windows=1, seed=seed, shuffle=False, length=length, tokens=tokens)
    assert [int(plain.batch(n).rows[0]) for n in range(total)] == [n * length for n in range(total)]


def test_windows_are_dealt_out_and_differ_by_epoch():
    sampler = WindowSampler(50, windows=4, seed=3)
    whole = [sampler.batch(position).rows.tolist() for position in range(24)]
    assert whole[:12] != whole[12:]
    dealt = [sampler.shard(rank, 3).batch(position).rows.tolist() for position in range(0, 24, 3) for rank in range(3)]
    assert dealt == whole
    assert sampler.shard(1, 3).batch(6).next_position == 9
