"""Requests that are wrong in every way: never a status of 500 or more, never a hang, and the server stays healthy."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import logging
import struct
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.serving.malformed import BODIES, Bad, corpus, request, send
from tests.serving.server import Server, tell

schemathesis = pytest.importorskip("schemathesis")
CLIENTS = 8


def healthy(server: Server, compute: int) -> None:
    """The same processes answer as before, and nothing is left behind."""
    assert server.process.poll() is None
    assert server.compute() == compute
    assert server.client.get("/ready").status_code == 200
    assert len(server.ask("/v1/embed", model="words", texts=["the cat"])["answers"]) == 1
    assert server.client.get("/v1/stats").json()["requests"]["pending"] == 0
    assert not any(line["event"] == "server error" for line in server.lines())
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize("count", [400, pytest.param(6_000, marks=pytest.mark.slow)])
def test_raw_bytes(server: Server, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    compute = server.compute()

    def attack(bad: Bad) -> tuple[Bad, list[int]]:
        return bad, send(server.address, bad)

    with ThreadPoolExecutor(CLIENTS) as pool:
        found = list(pool.map(attack, itertools.islice(corpus(seed=count), count)))
    wrong = [(bad.kind, bad.data[:500], statuses) for bad, statuses in found if max(statuses, default=0) >= 500]
    assert wrong == []
    assert all(statuses for bad, statuses in found if bad.whole)
    healthy(server, compute)
    kinds = Counter(bad.kind for bad, _ in found)
    told = Counter(status for _, statuses in found for status in statuses[-1:])
    tell(capsys, f"{count:,} raw requests of {len(kinds)} kinds, no 5xx, no hang: {dict(sorted(told.items()))}")


@pytest.mark.parametrize("each", [4, pytest.param(120, marks=pytest.mark.slow)])
def test_the_schema_says_what_is_allowed(server: Server, each: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Schemathesis sends what the OpenAPI description allows, and what it forbids, to every route."""
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    compute, counts = server.compute(), Counter[int]()
    schema = schemathesis.openapi.from_dict(server.client.get("/openapi.json").json())
    schema.config.update(base_url=server.url)
    for found in schema.get_all_operations():
        operation = found.ok()
        _attack(server, operation, schemathesis.GenerationMode.POSITIVE, each, counts)
        if operation.body:  # a name in a path can be any text
            _attack(server, operation, schemathesis.GenerationMode.NEGATIVE, each, counts)
    healthy(server, compute)
    total = sum(counts.values())
    tell(capsys, f"{total:,} requests from the schema, no 5xx, no hang: {dict(sorted(counts.items()))}")
    assert total >= 35 * each


def _attack(server: Server, operation: Any, mode: Any, each: int, counts: Counter[int]) -> None:
    """Send requests to one route; every answer must be one that the description lists."""
    listed = {int(status) for status in operation.definition.raw["responses"]}

    @settings(max_examples=each, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode))
    def attack(case: Any) -> None:
        response = case.call(base_url=server.url, timeout=30)
        counts[response.status_code] += 1
        assert response.status_code < 500, (case.as_curl_command(), response.text[:500])
        assert response.status_code in listed | {405}, (case.as_curl_command(), response.text[:500])

    attack()


def test_a_large_body_gets_its_refusal(server: Server) -> None:
    """The client still sends when the refusal comes; a connection closed at once would lose it."""
    link = http.client.HTTPConnection(*server.address, timeout=60)
    for _ in range(2):  # and the connection goes on
        body = b'{"model": "words", "texts": ["' + b"a" * (20 << 20) + b'"]}'
        link.request("POST", "/v1/embed", body, {"content-type": "application/json"})
        response = link.getresponse()
        assert (response.status, json.loads(response.read())["error"]["code"]) == (413, "over_limit")
    chunk = b"%x\r\n%b\r\n" % (1 << 20, b" " * (1 << 20))
    data = request("/v1/embed", chunk * 20 + b"0\r\n\r\n", "transfer-encoding: chunked")
    assert send(server.address, Bad("large", data, whole=True)) == [413]


def test_good_bodies_are_answered(server: Server) -> None:
    """What the corpus breaks is whole: without this, every refusal could be due to something else."""
    for path, body in BODIES.items():
        response = server.client.post(path, json=body)
        assert response.status_code == (422 if path == "/v1/image" else 200), (path, response.text)


def test_a_pixel_bomb_is_refused(server: Server) -> None:
    bomb = _bomb(30_000)
    assert "pixels" in server.refused("/v1/image", 422, model="pictures", texts=[bomb])


def _bomb(side: int) -> str:
    """Return a small PNG of a huge black square, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))

    head = struct.pack("!IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(b"\x00" * (side // 8 + 1) * side, 9)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(png).decode()
