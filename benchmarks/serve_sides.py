"""The two sides of benchmarks/serve.py: the library in a process of its own, and `qkv serve`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import serve_load as load

START = 300.0  # seconds for a server to load
REST = 0.3  # seconds between two sides: threads that wait for work spin a little before they sleep
# How threads wait, the same on both sides; `qkv` chooses by how busy the machine is, unless it is told.
WAIT = {"spin": {"KMP_BLOCKTIME": "200"}, "sleep": {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}}


def worker(folder: str, device: str, threads: int) -> None:
    """Answer each line of standard input, a JSON list of a name and its arguments, with a line of JSON."""
    import torch

    import qkv

    if threads:
        torch.set_num_threads(threads)
    model = qkv.load(folder, device=device)

    def vectors(texts: list[str]) -> Any:
        return model.embed(texts).tolist()

    def batched(texts: list[str]) -> float:
        start = time.perf_counter()
        model.embed(texts)
        return len(texts) / (time.perf_counter() - start)

    def singles(texts: list[str]) -> list[float]:
        times = []
        for text in texts:
            start = time.perf_counter()
            model.embed([text])
            times.append(time.perf_counter() - start)
        return times

    def generate(texts: list[str], length: int) -> float:
        start = time.perf_counter()
        found = model.generate(texts, max_length=length)
        return sum(len(one.tokens) for one in found) / (time.perf_counter() - start)

    able = {"vectors": vectors, "batched": batched, "singles": singles, "generate": generate}
    print("begun", flush=True)
    for line in sys.stdin:
        name, *given = json.loads(line)
        print(f"answer {json.dumps(able[name](*given))}", flush=True)


class Library:
    """The worker as this script sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._read("begun")

    def ask(self, *words: Any) -> Any:
        time.sleep(REST)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return json.loads(self._read("answer"))

    def _read(self, word: str) -> str:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith(word):
                return line.removeprefix(word)
        raise SystemExit("the library's side has ended; its error is above")


@contextmanager
def library(folder: Path, args: argparse.Namespace) -> Iterator[Library]:
    command = [sys.executable, __file__, str(folder), args.device, str(args.threads or 0)]
    environment = os.environ | WAIT[args.wait]
    process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Library(process)
    finally:
        process.kill()
        process.wait()


@dataclass
class Server:
    """The server as this script sees it."""

    address: load.Address
    process: subprocess.Popen[bytes]

    def ask(self, path: str, **body: Any) -> Any:
        answer = asyncio.run(load.ask(self.address, load.post(path, body)))
        if answer.status != 200:
            raise SystemExit(f"{path} answers {answer.status}: {answer.body[:300]!r}")
        return json.loads(answer.body)

    def memory(self) -> dict[str, float]:
        """Return megabytes in memory, by process."""
        pid = self.process.pid
        (compute,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return {"http": _resident(pid), "compute": _resident(int(compute))}


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


@contextmanager
def serving(folder: Path, args: argparse.Namespace, work: Path) -> Iterator[Server]:
    """Start `qkv serve` and wait until it is ready."""
    command = [sys.executable, "-m", "qkv", "serve", str(folder), "--port", "0", "--device", args.device]
    command += ["--threads", str(args.threads)] if args.threads else []
    file = work / "serve.log"
    with file.open("wb") as log:
        process = subprocess.Popen([*command, *args.serve], stdout=log, stderr=log, env=os.environ | WAIT[args.wait])
    try:
        yield Server(_address(process, file), process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], file: Path) -> load.Address:
    start = time.monotonic()
    while process.poll() is None and time.monotonic() - start < START:
        said = file.read_text()
        if '"event": "ready"' in said:
            line = next(line for line in said.splitlines() if "http://127.0.0.1:" in line)
            return "127.0.0.1", int(line.partition("http://127.0.0.1:")[2].split()[0].strip("/"))
        time.sleep(0.1)
    raise SystemExit(f"the server did not start:\n{file.read_text()[-2000:]}")


if __name__ == "__main__":
    worker(sys.argv[1], sys.argv[2], int(sys.argv[3]))
