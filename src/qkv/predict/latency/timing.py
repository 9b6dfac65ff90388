"""Time several engines in turns, so that whatever else the machine does slows all of them down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

LEAST = 3  # calls, however long they take
Call = Callable[[], Any]


def timed(
    calls: Mapping[str, Call], *, rounds: int, seconds: float, clock: Callable[[], float] | None = None
) -> dict[str, list[float]]:
    """Time each call in each round, and return its times.

    A call is repeated until it has used its part of the time. One that takes all of its time in fewer than `rounds`
    rounds is left out of the others after `LEAST` calls.

    Args:
        calls: by name; each has been called before.
        rounds: how often each gets its turn.
        seconds: how long to time each, over all rounds.
        clock: returns the seconds now.
    """
    now, names = clock or perf_counter, list(calls)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)  # so that no call always follows the same other one
        for name in names[first:] + names[:first]:
            spent = sum(times[name])
            if spent >= seconds and len(times[name]) >= LEAST:
                continue
            until = spent + seconds / rounds
            while True:
                began = now()
                calls[name]()
                times[name].append(now() - began)
                spent += times[name][-1]
                if spent >= until:
                    break
    return times


def percentile(times: Sequence[float], share: float) -> float:
    """Return the least of the times that this share of all times do not exceed."""
    return float(np.quantile(times, share, method="inverted_cdf"))
