"""How the threads of a matrix product wait for work: chosen before torch is imported, which reads it once.

OpenMP's threads spin while they wait. On cores that other processes want too, a thread that spins keeps a core from the
thread it waits for. Threads that sleep instead have to be woken. Measured with two threads on two cores
(`benchmarks/waiting.py`; training steps of the phrasebook, sentences of MiniLM per second):

             first in line     other processes on both cores
    spin     8.8     274       0.2     10
    sleep    6.4     208       2.8     60

"First in line" is a process that the system runs before all others, which stands for an idle machine. There, spinning
for a shorter time (GOMP_SPINCOUNT=10000) costs 1 to 7 %, and on busy cores it is slower than sleeping. So threads
sleep if the machine is busy when a command starts, and otherwise do what OpenMP does.
"""

from __future__ import annotations

import os
from pathlib import Path

LOADS = Path("/proc/loadavg")
NAMES = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}
SLEEP = {
    "OMP_WAIT_POLICY": "PASSIVE",  # OpenMP's own name; GNU's library, which torch for Linux brings, then does not spin
    "KMP_BLOCKTIME": "0",  # Intel's and LLVM's library: milliseconds of spinning
}


def choose_waiting() -> None:
    """Let waiting threads sleep if the machine is busy, unless the environment says how they wait."""
    if not NAMES & os.environ.keys() and is_busy(os.cpu_count() or 1):
        os.environ.update(SLEEP)


def is_busy(cpus: int) -> bool:
    """Whether other processes want the CPUs: in the last minute, and now. False where the system does not tell."""
    try:
        load, _, _, running, *_ = LOADS.read_text().split()  # "0.52 0.40 0.31 2/123 4567": 2 of 123 threads run
        return float(load) >= cpus / 2 and int(running.partition("/")[0]) > 1  # one of them is this process
    except (OSError, ValueError):
        return False
