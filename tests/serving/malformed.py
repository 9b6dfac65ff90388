"""Requests that no client should send: bytes that are not HTTP, JSON that is not a request, and what lies between.

`corpus(seed)` yields as many as you take. The same seed gives the same ones, so a failure can be repeated.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import gzip
import json
import random
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

PATIENCE = 0.3  # seconds for an answer to bytes that may be half a request; then the client closes its side
HANG = 20.0  # seconds after which a connection hangs, shorter than any time-out of a half-sent request would allow
BODIES: dict[str, dict[str, Any]] = {
    "/v1/translate": {"model": "en-de", "texts": ["a cat"], "max_length": 4},
    "/v1/generate": {"model": "writer", "texts": ["The cat"], "max_length": 3, "temperature": 0.5, "seed": 1},
    "/v1/classify": {"model": "reviews", "texts": ["the cat"], "every": True},
    "/v1/pairs": {"model": "reviews", "texts": ["the cat"], "pairs": ["a dog"]},
    "/v1/tag": {"model": "names", "texts": ["the cat"], "words": True},
    "/v1/answer": {"model": "reader", "texts": ["who ?"], "contexts": "the cat sat", "nbest": 2},
    "/v1/fill": {"model": "words", "texts": ["the [MASK] sat"], "top": 2},
    "/v1/embed": {"model": "words", "texts": ["the cat"], "normalize": True},
    "/v1/similar": {"model": "words", "texts": ["the cat"], "pairs": ["a dog"]},
    "/v1/search": {"model": "words", "texts": ["cat"], "lines": ["a cat", "a dog"], "top": 1},
    "/v1/image": {"model": "pictures", "texts": ["iVBORw0KGgo="]},
    "/v1/look": {"model": "reviews", "texts": ["the cat"], "layer": 0, "head": 1},
    "/v1/explain": {"model": "reviews", "texts": ["the cat"], "steps": 1},
    "/v1/embeddings": {"model": "words", "input": ["the cat"], "encoding_format": "base64"},
    "/v1/completions": {"model": "writer", "prompt": "The cat", "max_tokens": 2, "logprobs": 1, "stop": ["e"]},
    "/embed": {"model": "words", "inputs": ["the cat"], "truncate": True},
    "/predict": {"model": "reviews", "inputs": [["the cat", "a dog"]]},
    "/rerank": {"model": "scores", "query": "cat", "texts": ["a cat", "a dog"], "return_text": True},
    "/v1/models/words/reload": {},
}
DEEP = 20_000
STRANGE = [
    "null", "true", "0", "-1", "1e999", "-1e999", "NaN", "Infinity", "-Infinity", "1" * 400, "-" + "9" * 30, "1e-400",
    "0.1", "2147483648", "9223372036854775808", '""', '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"\\u202e\\ufeff"',
    "[]", "{}", "[[]]", "[null]", '["a", 1]', '[""]', '["\\ud83d"]', '{"a": 1}', "[" * DEEP, "[" * DEEP + "]" * DEEP,
    '{"a":' * DEEP + "1" + "}" * DEEP, '"' + "x" * 100_000 + '"', "[" + ",".join(['"a"'] * 3000) + "]", "undefined",
    "'a'", "0x10", "01", "+1", ".5", "1.", "--1", '"\\x"', '"a', "/* */ 1", '"\t"', '"' + "\u0301" * 4000 + '"',
    '"' + "\U0001f469\u200d" * 900 + '"', '"../../etc/passwd"', '"[MASK] [MASK]"', '"[CLS] [SEP] [PAD]"', '"</s><s>"',
]  # fmt: skip
KINDS = [
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml", "",
    "application/json; charset=utf-16", "application/json;;;", "APPLICATION/JSON", "application/jsonx", "*/*", "\xff",
]  # fmt: skip
LINES = [
    b"", b"\r\n", b"\n\n\n\n", b"GET", b"GET /\r\n\r\n", b"GET / HTTP/0.9\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET http:// HTTP/1.1\r\n\r\n", b"GET //evil.example/ HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nhost: localhost\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"CONNECT localhost:22 HTTP/1.1\r\nhost: localhost\r\n\r\n", b"get / http/1.1\r\n\r\n",
    b"G\x00T / HTTP/1.1\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n\r\n", b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /%ff%00%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /v1/models/%zz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /?" + b"a=1&" * 9000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000 + b"\r\n", b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost localhost\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n", b"GET / HTTP/1.1\r\n x: y\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n", b"GET / HTTP/1.1\r\nhost: \x00\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: [::1\r\n\r\n", b"GET / HTTP/1.1\r\nx: a\rb\r\n\r\n", b"HEAD /v1/stats HTTP/1.1\r\n\r\n",
    b"TRACE / HTTP/1.1\r\nhost: localhost\r\n\r\n", b"DELETE /v1/models/words HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: AAAA\r\nsec-websocket-version: 13\r\n\r\n",
    b"GET /health HTTP/1.1\r\nupgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: A\r\n\r\n",
]  # fmt: skip


@dataclass(frozen=True)
class Bad:
    """Bytes to send.

    Attributes:
        kind: the sort of mistake.
        data: what is sent.
        whole: whether they are a whole request, which gets an answer however long the client waits.
    """

    kind: str
    data: bytes
    whole: bool = False


def request(path: str, body: bytes, *headers: str, kind: str = "application/json", method: str = "POST") -> bytes:
    """Write a request."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", *headers]
    lines += [f"content-type: {kind}"] if kind else []
    lines += (
        []
        if any(":" in one and one.lower().startswith(("content-length", "transfer")) for one in headers)
        else [f"content-length: {len(body)}"]
    )
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _route(rng: random.Random) -> tuple[str, dict[str, Any]]:
    path = rng.choice(list(BODIES))
    return path, copy.deepcopy(BODIES[path])


def _strange_value(rng: random.Random) -> Bad:
    """A value, a name or an element of a good body becomes something else."""
    path, body = _route(rng)
    hole, value = "@hole@", rng.choice(STRANGE)
    if rng.random() < 0.2 or not body:
        body[rng.choice(["extra", "", "\u0000", "texts", "stream", "__class__"])] = hole
    else:
        name = rng.choice(list(body))
        if isinstance(body[name], list) and rng.random() < 0.5:
            body[name].append(hole)
        else:
            body[name] = hole
    return Bad("strange value", request(path, json.dumps(body).replace(f'"{hole}"', value, 1).encode()), whole=True)


def _broken_json(rng: random.Random) -> Bad:
    """The body ends too early, or has bytes that do not belong there."""
    path, body = _route(rng)
    data = bytearray(json.dumps(body).encode())
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(data) + 1)
        what = rng.randrange(4)
        if what == 0:
            del data[place:]
        elif what == 1:
            data[place:place] = bytes(rng.choices(range(256), k=rng.randint(1, 4)))
        elif what == 2:
            del data[place : place + rng.randint(1, 5)]
        else:
            data[place:place] = rng.choice([b'"', b"\\", b"{", b"]", b"\xed\xa0\x80", b"\xff", b"\x00", b"\\ud800"])
    return Bad("broken JSON", request(path, bytes(data)), whole=True)


def _encoded(rng: random.Random) -> Bad:
    """A good body, encoded in a way that was not agreed on."""
    path, body = _route(rng)
    text = json.dumps(body)
    data, *headers = rng.choice(
        [
            (gzip.compress(text.encode()), "content-encoding: gzip"),
            (gzip.compress(b"\x00" * 10_000_000, 9), "content-encoding: gzip"),
            (gzip.compress(text.encode()),),
            (text.encode("utf-16"),),
            (text.encode("utf-32"),),
            (text.encode("utf-8-sig"),),
            (text.encode(), "content-encoding: br"),
            (base64.b64encode(text.encode()),),
            (text.encode() * 2,),
            (b"",),
            (b"\x00" * 1000,),
        ]
    )
    return Bad("encoding", request(path, data, *headers), whole=True)


def _content_type(rng: random.Random) -> Bad:
    path, body = _route(rng)
    return Bad("content type", request(path, json.dumps(body).encode(), kind=rng.choice(KINDS)), whole=True)


def _method(rng: random.Random) -> Bad:
    path, body = _route(rng)
    method = rng.choice(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND", "BREW", "post"])
    return Bad("method", request(path, json.dumps(body).encode(), method=method))


def _length(rng: random.Random) -> Bad:
    """A length that is not that of the body, or chunks that are none."""
    path, body = _route(rng)
    data = json.dumps(body).encode()
    size = len(data)
    return Bad(
        "length",
        rng.choice(
            [
                request(path, data, f"content-length: {size + 5}"),
                request(path, data, f"content-length: {size - 5}"),
                request(path, data, f"content-length: {rng.choice(['-1', '1e3', '0x10', '', '9' * 30, '+5', '5 5'])}"),
                request(path, data, f"content-length: {size}", f"content-length: {size + 1}"),
                request(path, data, f"content-length: {size}", "transfer-encoding: chunked"),
                request(path, data, f"content-length: {9 << 20}"),
                request(path, b"5\r\nabc", "transfer-encoding: chunked"),
                request(path, b"zz\r\n" + data, "transfer-encoding: chunked"),
                request(path, b"-1\r\n" + data, "transfer-encoding: chunked"),
                request(path, b"f" * 20 + b"\r\n" + data, "transfer-encoding: chunked"),
                request(path, b"%x\r\n%b\r\n0\r\n\r\n" % (size, data), "transfer-encoding: gzip, chunked"),
                request(path, b"1;" + b"x" * 5000 + b"\r\na\r\n0\r\n\r\n", "transfer-encoding: chunked"),
                request(path, b"%x\r\n%b\r\n0\r\nx: y\r\n\r\n" % (size, data), "transfer-encoding: chunked"),
                request(path, data, "expect: 100-continue"),
                request(path, data, "expect: nothing", "connection: upgrade", "upgrade: x"),
            ]
        ),
    )


def _line(rng: random.Random) -> Bad:
    return Bad("HTTP", rng.choice(LINES))


def _noise(rng: random.Random) -> Bad:
    return Bad("noise", rng.randbytes(rng.choice([1, 10, 100, 1000, 100_000])))


def _mutated(rng: random.Random) -> Bad:
    """A good request with some bytes changed, taken out or put in anywhere."""
    path, body = _route(rng)
    data = bytearray(request(path, json.dumps(body).encode(), "authorization: Bearer x", "accept: */*"))
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(data))
        what = rng.randrange(3)
        if what == 0:
            data[place] = rng.randrange(256)
        elif what == 1:
            del data[place : place + rng.randint(1, 20)]
        else:
            data[place:place] = rng.choice([b"\r\n", b"\x00", b": ", b" ", b"\r\n\r\n", b"\xff" * 3, b"%" * 9])
    return Bad("mutation", bytes(data))


def _half(rng: random.Random) -> Bad:
    path, body = _route(rng)
    data = request(path, json.dumps(body).encode())
    return Bad("half", data[: rng.randrange(1, len(data))])


def _pipelined(rng: random.Random) -> Bad:
    """Several requests at once, some of them bad, without waiting for answers."""
    many = [_strange_value(rng).data, _line(rng).data, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"]
    return Bad("pipeline", b"".join(rng.choices(many, k=rng.randint(2, 30))))


KIND_OF: list[tuple[Callable[[random.Random], Bad], int]] = [
    (_strange_value, 30), (_broken_json, 14), (_encoded, 6), (_content_type, 4), (_method, 4), (_length, 8), (_line, 8),
    (_noise, 4), (_mutated, 14), (_half, 4), (_pipelined, 4),
]  # fmt: skip


def corpus(seed: int) -> Iterator[Bad]:
    """Yield bad requests without end."""
    rng = random.Random(seed)
    makers, weights = zip(*KIND_OF, strict=True)
    while True:
        yield rng.choices(makers, weights)[0](rng)


def send(address: tuple[str, int], bad: Bad) -> list[int]:
    """Send it; return the statuses of the answers. A connection that stays open after the client's end fails."""
    with socket.create_connection(address, timeout=HANG) as link:
        with contextlib.suppress(OSError):  # the server may have closed its side already
            link.sendall(bad.data)
        found = _read(link, HANG if bad.whole else PATIENCE, whole=bad.whole)
        with contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_WR)
        found += _read(link, HANG, whole=False, end=True)
    return _statuses(found)


def _read(link: socket.socket, seconds: float, *, whole: bool, end: bool = False) -> bytes:
    """Read what comes: one whole answer, or all until the connection ends or nothing comes any more."""
    link.settimeout(seconds)
    found = b""
    while not (whole and complete(found)):
        try:
            part = link.recv(1 << 20)
        except TimeoutError:
            if whole or end:
                raise AssertionError(f"no answer and no end within {seconds} s") from None
            break
        except OSError:
            break
        if not part:
            break
        found += part
    return found


def complete(data: bytes) -> bool:
    """Whether an answer has come completely."""
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return body.endswith(b"0\r\n\r\n")


def _statuses(data: bytes) -> list[int]:
    """Return the status of each answer; the bodies of refusals have no line that looks like one."""
    return [int(line.split()[1]) for line in data.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
