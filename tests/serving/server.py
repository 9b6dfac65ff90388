"""A real server in processes of its own, with tiny models that are made in code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import qkv
from tests.predict.readers import NER, make_reader
from tests.predict.writers import writer

LABELS = ("bad", "good")
START = 90.0  # seconds for a server to load on a machine that does other things too
CALL = """
import json, sys
from qkv.serving.limits import Limits
from qkv.serving.start import Order, start
limits = Limits(**json.loads(sys.argv[1]))
start(Order(sys.argv[2:], port=0, device="cpu", limits=limits), lambda text: print(text, file=sys.stderr, flush=True))
"""


def write_models(place: Path) -> dict[str, Path]:
    """Write a tiny model for each verb, and return their folders."""
    models = {
        "reviews": make_reader("pool", "classify", labels=LABELS),
        "scores": make_reader("pool", "regress", labels=()),
        "names": make_reader("tag", labels=NER),
        "reader": make_reader("span"),
        "words": make_reader("mlm"),
        "writer": writer("char", max_length=128),
        "pictures": qkv.build(
            "vit-ti16",
            device="cpu",
            image_size=16,
            patch_size=8,
            dim=16,
            num_layers=1,
            num_heads=2,
            ff_dim=32,
            num_labels=3,
        ),
    }
    for name, model in models.items():
        model.save(place / name)
    return {name: place / name for name in models}


@dataclass
class Server:
    """A server that runs.

    Attributes:
        process: of HTTP.
        url: where it listens.
        log: the file with its log.
        client: asks it.
    """

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    client: httpx.Client

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    def ask(self, path: str, **body: Any) -> Any:
        """Post JSON; anything but success fails the test."""
        response = self.client.post(path, json=body)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, path: str, status: int, **body: Any) -> str:
        """Post JSON that is refused; return the message."""
        response = self.client.post(path, json=body)
        assert response.status_code == status, response.text
        return str(response.json()["error"]["message"])

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of JSON in the log."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def compute(self) -> int:
        """Return the number of the process with the models."""
        return children(self.process.pid)[0]

    @contextmanager
    def paused(self) -> Iterator[int]:
        """Stop the process with the models for a while, so that requests surely wait; return its number."""
        number = self.compute()
        os.kill(number, signal.SIGSTOP)
        try:
            yield number
        finally:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)

    def pending(self) -> int:
        """Return how many requests wait or run."""
        return int(self.client.get("/v1/stats").json()["requests"]["pending"])

    def wait_pending(self, count: int, seconds: float = 10) -> None:
        """Wait until so many requests wait or run."""
        start = time.monotonic()
        while (found := self.pending()) != count:
            assert time.monotonic() - start < seconds, f"{found} requests are pending, not {count}"
            time.sleep(0.01)

    def wait_ready(self, seconds: float = START) -> float:
        """Wait until the models answer; return how long that took."""
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            try:
                if self.client.get("/ready").status_code == 200:
                    return time.monotonic() - start
            except httpx.TransportError:
                pass
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"not ready after {seconds} s: {self.log.read_text()}")


def tell(capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Print what a test has counted, although it passes."""
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def served(
    place: Path,
    *arguments: object,
    key: str | None = None,
    ready: bool = True,
    limits: dict[str, float] | None = None,
) -> Iterator[Server]:
    """Run `qkv serve` with arguments or, for limits that the command line has no option for, what it calls."""
    log = place / f"serve-{time.monotonic_ns()}.log"
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({} if key is None else {"QKV_API_KEY": key})
    with log.open("wb") as stream:
        words = [sys.executable, "-m", "qkv", "serve", *map(str, arguments), "--port", "0", "--device", "cpu"]
        if limits is not None:
            words = [sys.executable, "-c", CALL, json.dumps(limits), *map(str, arguments)]
        process = subprocess.Popen(words, stdout=stream, stderr=stream, env=environment)
    try:
        url = _url(process, log)
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            server = Server(process, url, log, client)
            if ready:
                server.wait_ready()
            yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    start = time.monotonic()
    while time.monotonic() - start < START and process.poll() is None:
        for line in log.read_text().splitlines():
            if line.startswith("serving "):
                return line.split(" on ")[1].split()[0]
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text()}")
