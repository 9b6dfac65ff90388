"""The sides of a comparison on a CPU: a process each, which waits without using the CPU while another one runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def started(
    script: str,
    sides: Iterable[str],
    threads: int,
    *,
    more: Iterable[str] = (),
    environments: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Start a script once for each side, with the arguments of this process and `--side`, and end all of them."""
    processes = {}
    try:
        for side in sides:
            own = (environments or {}).get(side, {})
            processes[side] = subprocess.Popen(
                [sys.executable, script, *sys.argv[1:], "--side", side, *more],
                env=os.environ | {"OMP_NUM_THREADS": str(threads), "TRANSFORMERS_VERBOSITY": "error"} | own,
                text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        yield processes
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def ask(process: subprocess.Popen[str], what: str) -> float | None:
    """Ask a side; None if it has failed."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{what}\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None
    while line := process.stdout.readline():
        try:
            return float(line)
        except ValueError:
            continue  # something that a library printed
    return None
