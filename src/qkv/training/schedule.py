"""Learning rate schedules: the share of the peak rate as a pure function of the step.

inverse-sqrt   warm-up, then √(warmup / step) (Vaswani et al. 2017, eq. 3)
linear         warm-up, then linear decay that would reach zero one step after the last
cosine         warm-up, then half a cosine down to a tenth (Loshchilov & Hutter 2017)
stable         warm-up, flat, and √-shaped decay over the last fifth (Hägele et al. 2024)
constant       warm-up, then flat

Every schedule is positive at every step, including the last one: a step with rate zero would be wasted.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from qkv.common.errors import unknown

FLOOR = 0.1  # of the peak, at the end of the cosine
COOLDOWN = 0.2  # of the steps, in which `stable` decays


def _inverse_sqrt(step: int, warmup: int, _total: int) -> float:
    return math.sqrt(max(warmup, 1) / max(step, warmup, 1))


def _linear(step: int, warmup: int, total: int) -> float:
    return max(0, total - step + 1) / (max(0, total - warmup) + 1)


def _cosine(step: int, warmup: int, total: int) -> float:
    done = min(1.0, (step - warmup) / max(total - warmup, 1))
    return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2


def _stable(step: int, _warmup: int, total: int) -> float:
    cooldown = max(1, round(COOLDOWN * total))
    left = max(0, total - step + 1) / (cooldown + 1)
    return 1.0 if left >= 1 else 1 - math.sqrt(1 - left)


def _constant(_step: int, _warmup: int, _total: int) -> float:
    return 1.0


SCHEDULES: dict[str, Callable[[int, int, int], float]] = {
    "inverse-sqrt": _inverse_sqrt,
    "linear": _linear,
    "cosine": _cosine,
    "stable": _stable,
    "constant": _constant,
}


def rate(name: str, step: int, *, warmup: int, total: int) -> float:
    """Return the share of the peak rate at a step, counted from 1."""
    if name not in SCHEDULES:
        raise unknown("schedule", name, SCHEDULES)
    if step <= warmup:
        return step / max(warmup, 1)
    return SCHEDULES[name](step, warmup, total)
