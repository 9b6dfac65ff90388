"""The load for benchmarks/serve.py: HTTP/1.1 on raw asyncio, over no more connections than it is told."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Address = tuple[str, int]
PATIENCE = 120.0  # seconds after which an answer counts as lost
AGAIN = 0.05  # seconds until a request that was refused is sent again
END = b"\r\n\r\n"


def post(path: str, body: Any) -> bytes:
    """Return a whole request."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
    return head.encode() + END + data


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1".encode() + END


@dataclass
class Answer:
    """An answer; status 0 is a connection that ended without one."""

    status: int
    body: bytes


class Connection(asyncio.Protocol):
    """Sends one request at a time, and opens again if the server closes."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._waiting: asyncio.Future[Answer] | None = None

    async def ask(self, request: bytes) -> Answer:
        loop = asyncio.get_running_loop()
        if self._transport is None:
            self._transport, _ = await loop.create_connection(lambda: self, *self._address)
        self._data.clear()
        self._waiting = loop.create_future()
        self._transport.write(request)
        async with asyncio.timeout(PATIENCE):
            return await self._waiting

    def data_received(self, data: bytes) -> None:
        self._data += data
        start = self._data.find(END) + len(END)
        if start < len(END) or self._waiting is None or self._waiting.done():
            return
        head = bytes(self._data[:start]).lower()
        chunked = b"transfer-encoding: chunked" in head
        if chunked and not self._data.endswith(b"0" + END):
            return
        length = 0 if chunked else int(head.partition(b"content-length:")[2].partition(b"\r")[0])
        if len(self._data) < start + length:
            return
        self._waiting.set_result(Answer(int(head[9:12]), bytes(self._data[start:])))
        if b"connection: close" in head:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Answer(0, b""))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None


@dataclass
class Load:
    """What a load has measured.

    Attributes:
        seconds: from the first request to the last answer.
        times: seconds of each request, by status.
        unsent: requests for which no connection was free.
    """

    seconds: float = 0.0
    times: dict[int, list[float]] = field(default_factory=dict)
    unsent: int = 0

    def add(self, status: int, seconds: float) -> None:
        self.times.setdefault(status, []).append(seconds)

    @property
    def statuses(self) -> dict[int, int]:
        return {status: len(times) for status, times in sorted(self.times.items())}

    @property
    def rate(self) -> float:
        """Requests with status 200 per second."""
        return len(self.times.get(200, ())) / self.seconds

    def share(self, status: int, percent: float) -> float:
        """Return a percentile of the seconds, by nearest rank; NaN without requests."""
        times = sorted(self.times.get(status, ()))
        return times[max(0, math.ceil(len(times) * percent / 100) - 1)] if times else math.nan


async def closed_loop(address: Address, requests: Sequence[bytes], connections: int) -> Load:
    """Send all requests; each connection sends its next one when it has the answer. What is refused is sent again."""
    left, load, start = deque(requests), Load(), time.perf_counter()

    async def client() -> None:
        connection = Connection(address)
        while left:
            request, begun = left.popleft(), time.perf_counter()
            status = (await connection.ask(request)).status
            load.add(status, time.perf_counter() - begun)
            if status == 429:
                left.append(request)
                await asyncio.sleep(AGAIN)
        connection.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    load.seconds = time.perf_counter() - start
    return load


async def open_loop(address: Address, requests: Sequence[bytes], rate: float, seconds: float, connections: int) -> Load:
    """Send requests at a rate, without waiting for answers. Times count from when a request was due.

    Args:
        address: of the server.
        requests: sent in turn.
        rate: requests a second.
        seconds: how long to send.
        connections: the most that are open. Requests that find none free are not sent, and counted.
    """
    free, load = [Connection(address) for _ in range(connections)], Load()
    pool, running = list(free), set[asyncio.Task[None]]()
    start = time.perf_counter()

    async def one(connection: Connection, request: bytes, due: float) -> None:
        answer = await connection.ask(request)
        load.add(answer.status, time.perf_counter() - start - due)
        free.append(connection)

    for number in range(max(1, round(rate * seconds))):
        due = number / rate
        if (wait := due - (time.perf_counter() - start)) > 0:
            await asyncio.sleep(wait)
        if not free:
            load.unsent += 1
            await asyncio.sleep(0)  # let answers in
            continue
        task = asyncio.create_task(one(free.pop(), requests[number % len(requests)], due))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    load.seconds = time.perf_counter() - start
    for connection in pool:
        connection.close()
    return load


async def ask(address: Address, request: bytes) -> Answer:
    """Send one request over a connection of its own."""
    connection = Connection(address)
    try:
        return await connection.ask(request)
    finally:
        connection.close()


async def together(address: Address, requests: Sequence[bytes]) -> list[Answer]:
    """Send all requests at once, each over a connection of its own."""
    return list(await asyncio.gather(*(ask(address, request) for request in requests)))
