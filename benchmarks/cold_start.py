"""How long a `qkv` command takes from the shell, in a process of its own.

    python benchmarks/cold_start.py classify FOLDER 'A good film.' --runs 11
    python benchmarks/cold_start.py classify FOLDER 'A good film.' --against OTHER_CHECKOUT/src

Figures are medians of wall-clock seconds. "import torch" is a process that does nothing else: the least that a command
with a model can take. With --against, the same command also runs with another version of qkv; the sides take turns, so
that a busy machine slows both alike. One run of each comes first and does not count: it fills the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "src"


def seconds(command: list[str], source: Path, threads: int) -> float:
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": str(threads)}
    start = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def cpu() -> str:
    """Name the CPU as lscpu does."""
    lines = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout.splitlines()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    return f"{facts.get('Model name', platform.machine()).strip()}, {os.cpu_count()} CPUs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="+", help="the arguments of qkv")
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--against", type=Path, help="the src folder of another checkout")
    asked = parser.parse_args()
    command = [sys.executable, "-m", "qkv", *asked.command]
    sides = {"qkv": (command, HERE), "import torch": ([sys.executable, "-c", "import torch"], HERE)}
    if asked.against:
        sides["against"] = (command, asked.against.resolve())
    found: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(asked.runs + 1):
        for name, (arguments, source) in sides.items():
            took = seconds(arguments, source, asked.threads)
            if turn:
                found[name].append(took)
    report = {
        "command": asked.command,
        "seconds": {name: round(statistics.median(times), 3) for name, times in found.items()},
        "slowest": {name: round(max(times), 3) for name, times in found.items()},
        "runs": asked.runs,
        "threads": asked.threads,
        "cpu": cpu(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", "typer", "safetensors", "tokenizers")},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
