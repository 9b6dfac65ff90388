"""Requests that wait for the models, and which of them are answered together."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

from pydantic_core import to_json

from qkv.serving.limits import cost_of
from qkv.serving.verbs import JOINED


@dataclass(eq=False)
class Job:
    """One request.

    Attributes:
        number: its number in the HTTP process.
        verb: what to do.
        model: the name of the model.
        columns: values for each text.
        options: values for all texts.
        deadline: when the answer is no longer wanted, on the monotonic clock.
        extra: what else the answer should have: usage, truncate, stream.
        gone: whether the client has gone.
    """

    number: int
    verb: str
    model: str
    columns: dict[str, list[Any]]
    options: dict[str, Any]
    deadline: float
    extra: dict[str, Any] = field(default_factory=dict)
    gone: bool = False

    def __post_init__(self) -> None:
        """Measure it once."""
        self.cost = cost_of(self.columns, self.options)
        same = (self.verb, self.model, *self.columns, to_json(self.options), to_json(self.extra))
        self.key = same if self.verb in JOINED else (self.number,)

    @property
    def size(self) -> int:
        """The number of its texts."""
        return len(self.columns["texts"])

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for the answer."""
        return not self.gone and time.monotonic() < self.deadline


class Waiting:
    """The queue between the thread that reads frames and the one that computes."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._changed = Condition()

    def add(self, job: Job) -> None:
        """Add a job at the end."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()

    def drop(self, job: Job) -> None:
        """Take a job out, if it still waits."""
        with self._changed, suppress(ValueError):
            self._jobs.remove(job)

    def wait(self) -> None:
        """Wait until there is a job."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._jobs))

    def take(self, budget: int) -> list[Job]:
        """Take the oldest job and, up to a budget of tokens, those that can be answered together with it.

        Costs are estimates; the library packs exact batches.
        """
        with self._changed:
            if not self._jobs:
                return []
            first, cost = self._jobs[0], 0
            found = list[Job]()
            for job in self._jobs:
                if job.key == first.key and (not found or cost + job.cost <= budget):
                    found.append(job)
                    cost += job.cost
            taken = set(map(id, found))
            self._jobs = deque(job for job in self._jobs if id(job) not in taken)
            return found


def joined(jobs: list[Job]) -> dict[str, list[Any]]:
    """Join the columns of jobs with the same key."""
    return {name: [value for job in jobs for value in job.columns[name]] for name in jobs[0].columns}


def parted(jobs: list[Job], answers: list[Any]) -> Iterator[tuple[Job, list[Any]]]:
    """Part the answers to joined jobs."""
    start = 0
    for job in jobs:
        yield job, answers[start : start + job.size]
        start += job.size
