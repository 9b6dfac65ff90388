"""Rounds of calls and percentiles, with a clock that only the calls move."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.predict.latency.timing import LEAST, percentile, timed


class Clock:
    """A clock that stands still but while something is called."""

    def __init__(self) -> None:
        self.now, self.log = 0.0, list[str]()

    def __call__(self) -> float:
        return self.now

    def call(self, name: str, *seconds: float):
        """Return a call that takes these seconds, in turn."""
        taken = iter(range(10**9))

        def run() -> None:
            self.log.append(name)
            self.now += seconds[next(taken) % len(seconds)]

        return run


@given(
    durations=st.lists(st.floats(0.01, 5), min_size=1, max_size=4),
    rounds=st.integers(1, 6),
    seconds=st.floats(0.02, 3),
)
def test_each_call_gets_its_part_of_the_time(durations, rounds, seconds) -> None:
    clock = Clock()
    times = timed(
        {str(i): clock.call(str(i), took) for i, took in enumerate(durations)},
        rounds=rounds,
        seconds=seconds,
        clock=clock,
    )
    assert list(times) == [str(i) for i in range(len(durations))]
    for took, found in zip(durations, times.values(), strict=True):
        assert all(math.isclose(one, took, rel_tol=1e-6) for one in found)
        assert len(found) >= min(rounds, LEAST)
        # It has had its time, or came last in a round that had time left for one call only.
        assert sum(found) >= seconds * 0.999 or len(found) >= rounds
        enough = max(seconds + rounds * took, LEAST * took)
        assert sum(found) <= enough * 1.001


def test_calls_take_turns_and_the_first_of_a_round_changes() -> None:
    clock = Clock()
    calls = {"a": clock.call("a", 1.0), "b": clock.call("b", 1.0)}
    timed(calls, rounds=3, seconds=3.0, clock=clock)
    assert "".join(clock.log) == "abbaab"


def test_fast_calls_are_repeated_in_each_round_and_slow_ones_are_left_out() -> None:
    clock = Clock()
    times = timed({"fast": clock.call("fast", 0.25), "slow": clock.call("slow", 9.0)}, rounds=5, seconds=5, clock=clock)
    assert {name: len(found) for name, found in times.items()} == {"fast": 20, "slow": LEAST}
    assert clock.log[:5] == ["fast"] * 4 + ["slow"]


def test_times_are_those_of_single_calls() -> None:
    clock = Clock()
    times = timed({"a": clock.call("a", 1.0, 2.0, 4.0)}, rounds=1, seconds=7.0, clock=clock)
    assert times == {"a": [1.0, 2.0, 4.0]}


@given(times=st.lists(st.floats(0.001, 10), min_size=1, max_size=250), share=st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_the_least_time_that_enough_calls_do_not_exceed(times, share) -> None:
    wanted = min(one for one in times if sum(other <= one for other in times) >= share * len(times) - 1e-9)
    assert percentile(times, share) == wanted


@pytest.mark.parametrize(("count", "which"), [(1, 0), (99, 98), (100, 98), (101, 99), (200, 197)])
def test_p99_of_few_calls_is_the_longest(count, which) -> None:
    assert percentile(list(range(count)), 0.99) == which
