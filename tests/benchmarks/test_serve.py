"""The load of benchmarks/serve.py against a server whose answers are known, and the tables that it prints."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import serve_load as load
import serve_table as table

from tests.benchmarks.conftest import BENCHMARKS
from tests.serving.server import write_models

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
BUSY = b"HTTP/1.1 429 Too Many\r\nContent-Length: 0\r\nconnection: close\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n"


def against(answer: Callable[[int], bytes], work: Callable[[load.Address], Any], *, pause: float = 0.0) -> Any:
    """Run a load against a server that answers its nth request with `answer(n)`, in three pieces."""
    count = iter(range(10**6))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(65_536):
            assert head.startswith(b"POST /v1/embed HTTP/1.1")
            await asyncio.sleep(pause)
            data = answer(next(count))
            for part in (data[:9], data[9:30], data[30:]):
                writer.write(part)
                await asyncio.sleep(0)
            if not data or b"connection: close" in data:
                break
        writer.close()

    async def both() -> Any:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            return await work(server.sockets[0].getsockname())

    return asyncio.run(asyncio.wait_for(both(), 30))


ONE = load.post("/v1/embed", {"texts": ["a"]})


def test_answers_come_whole_however_they_are_cut() -> None:
    found = against(lambda n: (OK, STREAM, BUSY, b"")[n], lambda at: load.together(at, [ONE] * 4))
    assert sorted(one.status for one in found) == [0, 200, 200, 429]
    assert sorted(one.body for one in found if one.status == 200) == [b"3\r\none\r\n0\r\n\r\n", b"hi"]


def test_a_closed_load_sends_again_what_is_refused() -> None:
    found = against(lambda n: BUSY if n < 5 else OK, lambda at: load.closed_loop(at, [ONE] * 20, 3))
    assert found.statuses == {200: 20, 429: 5}
    assert found.rate == pytest.approx(20 / found.seconds)


def test_an_open_load_keeps_its_rate_and_counts_from_when_a_request_was_due() -> None:
    found = against(lambda n: OK, lambda at: load.open_loop(at, [ONE], 100, 0.5, 2), pause=0.1)
    assert sum(found.statuses.values()) + found.unsent == 50
    assert found.unsent >= 25  # two connections take twenty a second
    assert found.share(200, 0) >= 0.1


@pytest.mark.parametrize(("percent", "wanted"), [(0, 1.0), (50, 50.0), (99, 99.0), (100, 100.0)])
def test_percentiles_are_by_nearest_rank(percent: float, wanted: float) -> None:
    found = load.Load(1.0, {200: [float(n) for n in range(100, 0, -1)]})
    assert found.share(200, percent) == wanted
    assert math.isnan(found.share(429, percent))


def test_tables_have_medians_and_ratios_of_each_round() -> None:
    rounds = [
        {"library": 100.0 * n, "texts": {8: {"rate": 80.0 * n}}, "library one": 0.001, "serve one": 0.001 + n / 1000}
        for n in (1, 2, 9)
    ]
    lines = table.throughput(rounds)
    assert f"| batched, 8 texts a request | 200 texts/s | 160 texts/s | 0.80 {table.TIMES} |" in lines
    assert "| one by one, p50 | 1.00 ms | 3.00 ms | +2.00 ms |" in lines
    samples = [{"minutes": n / 10, "http": 50.0 + n, "compute": 300.0} for n in range(11)]
    assert "| HTTP process | 50 MB | 51 | 60 | 60 | +9.0 MB |" in table.memory(samples)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["texts", "streams"])
def test_the_whole_measurement_runs(tmp_path: Any, kind: str) -> None:
    models = write_models(tmp_path)
    words = ["--rounds", "1", "--cores", "0", "--json", tmp_path / "found.json"]
    if kind == "texts":
        words += ["--model", models["words"], "--count", "32", "--texts", "1", "8", "--singles", "4"]
        words += ["--seconds", "0.5", "--requests", "20", "--minutes", "0.05"]
    else:
        words += ["--generate", models["writer"], "--streams", "3", "--length", "5"]
    command = [sys.executable, BENCHMARKS / "serve.py", *words]
    done = subprocess.run(
        list(map(str, command)), env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    wanted = "| compute process |" if kind == "texts" else f"3 {table.TIMES} 5 tokens"
    assert wanted in done.stdout
