"""OpenMP's threads wait for work by spinning or by sleeping (OMP_WAIT_POLICY): what each costs, idle and busy.

    python benchmarks/waiting.py FOLDER --rounds 5

FOLDER is an encoder such as MiniLM. Two loads on the CPU: training steps of the phrasebook translator, and sentences
per second of `embed`. Each is measured alone and beside other processes that keep one core each busy with products of
small matrices. Every measurement is a process of its own with the threads given; the sides take turns, so that whatever
else the machine does slows all of them alike. Figures are medians over the rounds. Where the machine is never
idle, this lets the script run before all others (as root; the kernel shares the CPUs between sessions):

    setsid bash -c 'echo -20 > /proc/self/autogroup; python benchmarks/waiting.py FOLDER --busy 0'
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version

SIDES: dict[str, dict[str, str]] = {
    "default": {},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"},
    "spin 10,000": {"GOMP_SPINCOUNT": "10000"},
}
SECONDS = float(os.environ.get("WAITING_SECONDS", "12"))  # of each measurement, after the first step or batch
BUSY = "import torch\ntorch.set_num_threads(1)\nx = torch.rand(256, 256)\nwhile True: x @ x"


class Enough(Exception):
    """Ends a training run."""


def train() -> float:
    """Return training steps per second."""
    import qkv

    times: list[float] = []

    def count(*_: object) -> None:
        times.append(time.perf_counter())
        if times[-1] - times[0] > SECONDS:
            raise Enough

    changes = {"train.log_every": 1, "train.validate_every": 10**6, "train.save_every": 10**6}
    with tempfile.TemporaryDirectory() as place, suppress(Enough):
        changes["out"] = f"{place}/run"
        qkv.train("phrasebook", changes=changes, callbacks=[count], device="cpu", say=lambda _: None)
    return (len(times) - 1) / (times[-1] - times[0])


def embed(folder: str) -> float:
    """Return sentences per second, 10 to 30 words each, 32 at a time."""
    import qkv

    model = qkv.load(folder, device="cpu")
    texts = [" ".join(["river", "stone", "walks"][n % 3] for n in range(i, i + 10 + i % 21)) for i in range(32)]
    model.embed(texts)
    batches, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS / 2:
        model.embed(texts)
        batches += 1
    return batches * len(texts) / (time.perf_counter() - start)


def measured(load: str, folder: str, threads: int, side: dict[str, str]) -> float:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_", "KMP_"))}
    command = [sys.executable, __file__, folder, "--load", load]
    environment = clean | {"OMP_NUM_THREADS": str(threads), **side}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1], help="how many busy processes beside")
    parser.add_argument("--load", choices=["train", "embed"], help=argparse.SUPPRESS)  # one measurement
    asked = parser.parse_args()
    if asked.load:
        print(train() if asked.load == "train" else embed(asked.folder))
        return
    found: dict[str, dict[str, list[float]]] = {}
    for turn in range(asked.rounds):
        for busy in asked.busy:
            others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
            try:
                for load in ("train", "embed"):
                    for name, side in list(SIDES.items())[:: 1 if turn % 2 else -1]:
                        place = found.setdefault(f"{load}, {busy} busy", {}).setdefault(name, [])
                        place.append(measured(load, asked.folder, asked.threads, side))
                        print(f"{load}, {busy} busy, {name}: {place[-1]:.2f} per second", file=sys.stderr)
            finally:
                for other in others:
                    other.kill()
    report = {
        "per_second": {
            load: {name: round(statistics.median(sides[name]), 2) for name in SIDES} for load, sides in found.items()
        },
        "rounds": asked.rounds,
        "threads": asked.threads,
        "load_average": os.getloadavg()[0],
        "cpu": f"{platform.machine()}, {os.cpu_count()} CPUs",
        "torch": version("torch"),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
