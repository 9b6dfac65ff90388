"""How the threads of a matrix product wait for work: set before torch is imported, which reads it once."""

from __future__ import annotations

import os

WAITING = {
    "OMP_WAIT_POLICY": "PASSIVE",  # OpenMP's own name; GNU's library, which torch for Linux brings, then does not spin
    "KMP_BLOCKTIME": "0",  # Intel's and LLVM's library: milliseconds of spinning
}


def wait_passively() -> None:
    """Let waiting threads sleep instead of spinning, unless the environment already says how they wait.

    A thread that spins keeps a core from the thread it waits for, where another process wants that core too.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & os.environ.keys():
        os.environ.update(WAITING)
