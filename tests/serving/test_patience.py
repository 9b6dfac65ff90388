"""Deadlines, full queues, and clients that go, stall or send half: nobody holds a worker, and nobody gets a 5xx."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.serving.bodies import FREE, Bodies
from qkv.serving.errors import Refused
from qkv.serving.limits import Limits
from qkv.serving.supervisor import STUCK
from tests.serving.malformed import complete, request
from tests.serving.server import Server, children, served
from tests.serving.test_faults import asking, until

RECEIVE, SEND, DEADLINE, QUEUE, CONNECTIONS = 0.8, 0.8, 1.5, 4, 40
LARGE = 1_000_000  # bytes
SLACK = 5.0  # seconds that a busy machine may add
BODY = json.dumps({"model": "words", "texts": ["the cat sat"]}).encode()
WHOLE = request("/v1/embed", BODY)
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def brisk(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with little patience."""
    limits = {"receive": RECEIVE, "send": SEND, "deadline": DEADLINE, "queue": QUEUE, "connections": CONNECTIONS}
    place = tmp_path_factory.mktemp("brisk")
    with served(place, folders["words"], folders["writer"], limits=limits) as found:
        yield found


def link(server: Server, data: bytes = b"") -> socket.socket:
    """Open a connection and send something."""
    found = socket.create_connection(server.address, timeout=SEND + RECEIVE + SLACK)
    found.sendall(data)
    return found


def answer(connection: socket.socket) -> bytes:
    """Read one answer."""
    found = b""
    while not complete(found):
        part = connection.recv(1 << 16)
        assert part, found
        found += part
    return found


def rest(connection: socket.socket) -> bytes:
    """Read until the server closes; a connection that stays open fails by its time-out."""
    found = b""
    try:
        while part := connection.recv(1 << 20):
            found += part
    except ConnectionResetError:
        pass
    return found


def texts_embedded(server: Server) -> int:
    """Return how many texts the model has embedded."""
    found = re.search(r'^qkv_texts_total\{model="words",verb="embed"\} (\S+)', server.client.get("/metrics").text, re.M)
    return int(float(found[1])) if found else 0


def test_a_request_past_its_deadline_is_refused_and_never_computed(brisk: Server) -> None:
    before = texts_embedded(brisk)
    with brisk.paused():
        start = time.monotonic()
        told = brisk.refused("/v1/embed", 504, model="words", texts=["a"])
        assert DEADLINE <= time.monotonic() - start < DEADLINE + SLACK
        assert told == f"no answer within {DEADLINE:g} s, the deadline of this server"
        assert brisk.pending() == 0
    brisk.ask("/v1/embed", model="words", texts=["a"])
    assert texts_embedded(brisk) == before + 1


def test_a_long_generation_stops_at_its_deadline(brisk: Server) -> None:
    body = {"model": "writer", "texts": ["The cat"] * 512, "max_length": 120, "temperature": 1.0}
    start = time.monotonic()
    assert brisk.client.post("/v1/generate", json=body).status_code in (200, 504)
    assert time.monotonic() - start < DEADLINE + SLACK
    brisk.wait_pending(0)
    brisk.ask("/v1/generate", model="writer", texts=["The cat"], max_length=2)


@pytest.mark.parametrize("data", [WHOLE, WHOLE + WHOLE, WHOLE + HEALTH, WHOLE + b"?? not HTTP\r\n\r\n"])
def test_what_a_client_that_has_gone_asked_for_is_never_computed(brisk: Server, data: bytes) -> None:
    before = texts_embedded(brisk)
    with brisk.paused():
        links = [link(brisk, data) for _ in range(3)]
        if b"??" not in data:
            brisk.wait_pending(3)
        for one in links:
            one.close()
        brisk.wait_pending(0)
    brisk.ask("/v1/embed", model="words", texts=["a"])
    assert texts_embedded(brisk) == before + 1


def test_a_full_queue_refuses_before_the_body_is_sent(brisk: Server) -> None:
    with brisk.paused() as number:
        pool, waiting = asking(brisk, QUEUE)
        brisk.wait_pending(QUEUE)
        start = time.monotonic()
        with link(brisk, request("/v1/embed", b"", "content-length: 1000000")) as one:
            told = answer(one)
            assert time.monotonic() - start < RECEIVE
            assert told.startswith(b"HTTP/1.1 429 ")
            assert re.search(rb"\r\nretry-after: [1-9]\d*\r\n", told)
            assert b"4 requests are waiting, which is all that this server takes" in told
            assert rest(one) == b""  # the body never comes: the connection ends, without a second answer
        with link(brisk, request("/v1/embed", b"{" * 1000)) as one:
            assert answer(one).startswith(b"HTTP/1.1 429 ")
            one.sendall(HEALTH)  # the same connection goes on
            assert answer(one).startswith(b"HTTP/1.1 200 ")
        os.kill(number, signal.SIGCONT)
        statuses = [one.result().status_code for one in waiting]
        pool.shutdown()
    assert set(statuses) <= {200, 504}  # 504 on a machine so busy that the deadline has passed


def test_half_sent_requests_end_and_hold_nobody_up(brisk: Server) -> None:
    """Heads and bodies that stop in the middle get 408 and the end of their connection; others are answered."""
    halves = [WHOLE[:place] for place in range(1, len(WHOLE), len(WHOLE) // 20)]
    with ExitStack() as stack:
        links = [stack.enter_context(link(brisk, half)) for half in halves]
        for _ in range(20):
            brisk.ask("/v1/embed", model="words", texts=["a"])
        assert brisk.pending() == 0
        for one in links:
            assert rest(one).startswith(b"HTTP/1.1 408 ")


def test_a_request_that_drips_ends(brisk: Server) -> None:
    start = time.monotonic()
    with link(brisk) as one:
        for byte in WHOLE:
            time.sleep(0.02)
            try:
                one.sendall(bytes([byte]))
            except OSError:
                break
    assert RECEIVE <= time.monotonic() - start < RECEIVE + SLACK
    assert len(WHOLE) * 0.02 > RECEIVE  # so the whole request was never sent


@pytest.mark.parametrize("extra", [b"", b"\r\n", b"\r\n\r\n\r\n"])
def test_an_idle_connection_is_open_for_the_next_request(brisk: Server, extra: bytes) -> None:
    with link(brisk, HEALTH) as one:
        assert answer(one).startswith(b"HTTP/1.1 200 ")
        one.sendall(extra)
        time.sleep(RECEIVE / 2)
        one.sendall(HEALTH)
        assert answer(one).startswith(b"HTTP/1.1 200 ")


def test_empty_lines_hold_no_connection(brisk: Server) -> None:
    with link(brisk, HEALTH) as one:
        answer(one)
        one.sendall(b"\r\n")
        assert rest(one).startswith(b"HTTP/1.1 408 ")


def test_another_protocol_is_answered_in_this_one_and_ends(brisk: Server) -> None:
    head = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    with link(brisk, head + HEALTH) as one:
        assert rest(one).count(b"HTTP/1.1 200 ") == 1


def sockets(server: Server) -> int:
    """Return how many sockets the HTTP process has."""
    place = Path(f"/proc/{server.process.pid}/fd")
    return sum(os.readlink(one).startswith("socket:") for one in place.iterdir() if one.is_symlink())


@pytest.mark.parametrize("count", [5, 400])
def test_slow_readers_hold_nobody_up_and_are_cut_off(brisk: Server, count: int) -> None:
    """Clients ask for much and read nothing; what they were sent fills all buffers, or nearly."""
    brisk.client.get("/health")
    before = sockets(brisk)
    page = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * count
    with ExitStack() as stack:
        links = []
        for _ in range(8):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(SLACK)
            one.connect(brisk.address)
            one.sendall(page)
            links.append(one)
        for _ in range(20):
            assert brisk.ask("/v1/embed", model="words", texts=["a"])["answers"]
        if count > 5:
            until(lambda: sockets(brisk) <= before, SEND + RECEIVE + SLACK)
            return
        for one in links:  # those who read in the end get everything
            found = b""
            while found.count(b"HTTP/1.1 200 ") < count or not found.endswith(b"}"):
                part = one.recv(1 << 16)
                assert part
                found += part


@pytest.fixture(scope="module")
def narrow(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with room for two large bodies."""
    limits = {"body": LARGE, "bodies": 2 * LARGE, "receive": 20.0}
    with served(tmp_path_factory.mktemp("narrow"), folders["words"], limits=limits) as found:
        yield found


def test_half_sent_bodies_fill_no_memory_and_small_requests_pass(narrow: Server) -> None:
    padded = BODY + b" " * (LARGE - len(BODY))
    announced = request("/v1/embed", b"", f"content-length: {LARGE}")
    chunked = request("/v1/embed", b"", "transfer-encoding: chunked") + b"%x\r\n" % LARGE
    with ExitStack() as stack:
        for _ in range(30):  # what is only announced takes no room
            stack.enter_context(link(narrow, announced))
        whole = request("/v1/embed", padded)
        with link(narrow, whole) as one:
            assert answer(one).startswith(b"HTTP/1.1 200 ")
        links = []
        for number in range(20):
            links.append(stack.enter_context(link(narrow, announced if number % 2 else chunked)))
            with suppress(OSError):
                links[-1].sendall(padded[: LARGE * 9 // 10])
        refused = [one for one in links if select.select([one], [], [], 1)[0]]
        assert len(refused) == 18  # two are held, and wait for their end
        for one in refused[:3]:
            told = answer(one)
            assert told.startswith(b"HTTP/1.1 429 ")
            assert b"\r\nretry-after: 1\r\n" in told
            assert b"and the limit is 2,000,000: try again in 1 s" in told
        assert narrow.ask("/v1/embed", model="words", texts=["a"])["answers"]
        with link(narrow, whole) as one:
            assert answer(one).startswith(b"HTTP/1.1 429 ")
    until(lambda: embeds(narrow, whole), SLACK)  # they have gone, and their bytes with them
    assert not [line for line in narrow.lines() if line.get("status", 0) >= 500 and line["method"] == "POST"]


def embeds(server: Server, whole: bytes) -> bool:
    with link(server, whole) as one:
        return answer(one).startswith(b"HTTP/1.1 200 ")


@given(st.lists(st.lists(st.integers(0, 300_000), max_size=6), max_size=12))
def test_bytes_are_let_go_and_never_exceed_the_limit(requests: list[list[int]]) -> None:
    bodies = Bodies(Limits(body=100_000, bodies=400_000))
    with ExitStack() as stack:
        for parts in requests:
            body, taken = stack.enter_context(bodies.one()), 0
            for part in parts:
                room = bodies.most - bodies.held
                more = max(0, taken + part - FREE) - max(0, taken - FREE)
                if more > room:
                    with pytest.raises(Refused):
                        body.add(part)
                    break
                body.add(part)
                taken += part
            assert 0 <= bodies.held <= bodies.most == 400_000
    assert bodies.held == 0
    assert Bodies(Limits(body=1 << 30)).most == 1 << 30


def test_too_many_connections_are_refused_until_others_end(brisk: Server) -> None:
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(link(brisk))
        with link(brisk, HEALTH) as one:
            assert rest(one).startswith(b"HTTP/1.1 503 ")
        until(lambda: _healthy(brisk), RECEIVE + SLACK)


def _healthy(server: Server) -> bool:
    try:
        return httpx.get(f"{server.url}/health").status_code == 200
    except httpx.TransportError:
        return False


def test_many_clients_that_go_leave_nothing(brisk: Server) -> None:
    """Clients that leave at any moment: in the head, in the body, before, in and after the answer."""
    before = sockets(brisk)

    def visit(number: int) -> Any:
        with link(brisk, WHOLE[: 1 + number * 7 % len(WHOLE)] if number % 3 else WHOLE) as one:
            if number % 4 == 0:
                time.sleep(0.003 * (number % 5))
            if number % 7 == 0:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # a reset

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(visit, range(300)))
    brisk.wait_pending(0)
    until(lambda: sockets(brisk) <= before, RECEIVE + SEND + SLACK)
    assert brisk.ask("/v1/embed", model="words", texts=["a"])["answers"]
    assert not any(line["event"] == "server error" for line in brisk.lines())
    assert not any(line.get("status", 0) >= 500 and line.get("status") not in (503, 504) for line in brisk.lines())


@pytest.mark.slow
def test_a_process_that_hangs_is_killed_and_one_that_idles_is_not(brisk: Server) -> None:
    """With nobody asking it lives on; stopped for good, it is replaced some 30 s after its last sign of life."""
    number = brisk.compute()
    time.sleep(STUCK + DEADLINE + SLACK)
    assert brisk.compute() == number
    with brisk.paused():
        until(lambda: number not in children(brisk.process.pid), STUCK + DEADLINE + 2 * SLACK)
    brisk.wait_ready()
    assert brisk.ask("/v1/embed", model="words", texts=["a"])["answers"]
