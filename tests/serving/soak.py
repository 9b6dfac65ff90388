"""Minutes of load, good and bad, while the memory of both processes is watched.

`python -m tests.serving.soak --seconds 300` runs five minutes of it; `make test-slow` runs one.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import qkv
from tests.serving.malformed import corpus, send
from tests.serving.server import Server, served, write_models
from tests.serving.traffic import Case, Result, cases, drive

T = TypeVar("T")
CLIENTS, ATTACKERS = 6, 2
WARM = 0.25  # of the time, in which caches fill and the allocator finds its size
GROWTH = 0.05  # the most that memory may grow from the first half of the rest to the second; allocators go in steps
BRIEF = 0.10  # the same for a minute, in which the statistics of the last 30 seconds still fill up


@dataclass
class Soak:
    """What came of it.

    Attributes:
        result: the answers to good requests.
        bad: malformed requests that were sent.
        worst: the highest status that one of them got.
        memory: resident bytes of each process, about ten times a second.
    """

    result: Result = field(default_factory=Result)
    bad: int = 0
    worst: int = 0
    memory: dict[str, list[int]] = field(default_factory=dict)

    def grown(self) -> dict[str, tuple[int, int]]:
        """Return the medians of the memory of each process in both halves after the warm-up."""
        found = {}
        for name, values in self.memory.items():
            rest = values[int(len(values) * WARM) :]
            half = len(rest) // 2
            found[name] = (int(statistics.median(rest[:half])), int(statistics.median(rest[half:])))
        return found

    def flat(self, growth: float = GROWTH) -> bool:
        """Whether the memory of no process grows by more than a share."""
        return all(after - before <= growth * before for before, after in self.grown().values())

    def lines(self) -> Iterator[str]:
        """Say what came of it."""
        yield f"{self.result.statuses.total():,} good requests, {len(self.result.wrong)} of them answered wrongly"
        yield f"{self.bad:,} malformed requests, the highest status {self.worst}"
        for name, (before, after) in self.grown().items():
            yield f"{name} process: {before / 2**20:.1f} MB, later {after / 2**20:.1f} MB"


def resident(pid: int) -> int:
    """Return the bytes of a process that are in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"process {pid} has ended")


def soak(server: Server, known: list[Case], seconds: float) -> Soak:
    """Send good and malformed requests for a while."""
    found, end = Soak(), time.monotonic() + seconds
    pids = {"HTTP": server.process.pid, "compute": server.compute()}
    found.memory = {name: [] for name in pids}
    usual = [case for case in known if not case.path.endswith("/reload")]  # two at once are refused

    def watch() -> None:
        while time.monotonic() < end:
            for name, pid in pids.items():
                found.memory[name].append(resident(pid))
            time.sleep(0.1)

    def attack(seed: int) -> None:
        for bad in _until(end, corpus(seed)):
            statuses = send(server.address, bad)
            with lock:
                found.bad += 1
                found.worst = max([found.worst, *statuses])

    lock = threading.Lock()
    with ThreadPoolExecutor(2 + ATTACKERS) as pool:
        jobs: list[Callable[[], None]] = [watch, *(lambda seed=seed: attack(seed) for seed in range(ATTACKERS))]
        waiting = [pool.submit(job) for job in jobs]
        found.result = drive(server.address, _until(end, itertools.cycle(usual)), CLIENTS)
        for one in waiting:
            one.result()
    return found


def _until(end: float, many: Iterator[T]) -> Iterator[T]:
    while time.monotonic() < end:
        yield next(many)


def main() -> None:
    """Run it alone."""
    parser = argparse.ArgumentParser(description="Load a server for some time and watch its memory.")
    parser.add_argument("--seconds", type=float, default=300.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        folders = write_models(place)
        models = {name: qkv.load(one, device="cpu") for name, one in [*folders.items(), ("en-de", "en-de")]}
        with served(place, *folders.values(), "en-de", "--patience", "60") as server:
            found = soak(server, cases(models, seed=0, each=3), seconds)
    with suppress(BrokenPipeError):
        sys.stdout.write("\n".join([*found.lines(), "flat" if found.flat() else "NOT FLAT", ""]))
    sys.exit(not (found.flat() and not found.result.wrong and found.worst < 500))


if __name__ == "__main__":
    main()
