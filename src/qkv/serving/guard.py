"""The checks before every route (key, host, queue, size of the body), and the log after it.

A request is refused as early as it can be: a full queue before the body is read, a large body before it is parsed.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from pydantic_core import to_json

from qkv.serving.bodies import Bodies, Body
from qkv.serving.errors import Refused
from qkv.serving.limits import Limits
from qkv.serving.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

LOG = logging.getLogger("qkv.serving")
OPEN = "/health"  # the one route without a key
LOCAL = {"localhost", "127.0.0.1", "[::1]"}
PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_SAFE = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """An ASGI application around another one.

    Args:
        app: the routes.
        limits: of each request.
        metrics: counts every request.
        key: what clients must know; None lets everybody in, but then only by a name of this machine.
        works: the paths that ask a model.
        check_room: refuses if the queue is full.
    """

    def __init__(
        self,
        app: App,
        *,
        limits: Limits,
        metrics: Metrics,
        key: str | None,
        works: frozenset[str],
        check_room: Callable[[], None],
    ) -> None:
        self.app, self.limits, self.metrics, self.works = app, limits, metrics, works
        self._key = None if key is None else key.encode()
        self._check_room = check_room
        self._bodies = Bodies(limits)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.monotonic(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                there = {name for name, _ in message.get("headers", ())}
                message["headers"] = [*message.get("headers", ()), *(one for one in _SAFE if one[0] not in there)]
            await send(message)

        try:
            with self._bodies.one() as room:
                body = await self._admit(scope, receive, room)
                await self.app(scope, _replayed(body, receive), sent)
        except Refused as refused:
            await respond(refused, sent)
        except Gone:
            status = 499
        finally:
            self._count(scope, status, time.monotonic() - start)

    async def _admit(self, scope: Message, receive: Receive, room: Body) -> bytes:
        """Return the body, if the request may go on."""
        headers = dict(scope["headers"])
        self._check_client(scope["path"], headers)
        if scope["method"] not in ("POST", "PUT", "PATCH", "DELETE"):
            return b""
        if scope["path"] in self.works and scope["method"] == "POST":
            self._check_room()
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if kind != b"application/json":
                raise Refused(415, "the body must be JSON, sent with the header content-type: application/json")
        return await self._body(headers, receive, room)

    def _check_client(self, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Check the key in constant time. Without a key, a name of another machine is a page that tricks a browser."""
        if path == OPEN:
            return
        if self._key is None:
            host = headers.get(b"host", b"localhost").decode("latin-1").lower()
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name not in LOCAL:
                raise Refused(
                    403, "this server has no API key, so it answers only to localhost and 127.0.0.1", code="host"
                )
        elif not hmac.compare_digest(_credential(headers.get(b"authorization", b"")), self._key):
            raise Refused(
                401,
                "this server needs its API key: send the header authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": 'Bearer realm="qkv", Basic realm="qkv"'},
            )

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive, room: Body) -> bytes:
        """Read the body, and no more of it than the limit and the room for all bodies allow."""
        most, length = self.limits.body, headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > most:
            raise _too_large(most)
        parts = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            parts.append(message.get("body", b""))
            if room.size + len(parts[-1]) > most:
                raise _too_large(most)
            room.add(len(parts[-1]))
            if not message.get("more_body"):
                return b"".join(parts)

    def _count(self, scope: Message, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        if route == "other" and scope["path"] in self.works:
            route = scope["path"]
        self.metrics.count(route, status, seconds, work=scope["path"] in self.works)
        about = scope.get("qkv", {})
        log("request", method=scope["method"], route=route, status=status, ms=round(1000 * seconds, 2), **about)


class Gone(Exception):
    """The client has gone."""


def log(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Write a line of JSON."""
    if LOG.isEnabledFor(level):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{int(time.time() % 1 * 1000):03d}Z"
        LOG.log(
            level, json.dumps({"time": stamp, "level": logging.getLevelName(level).lower(), "event": event} | fields)
        )


async def respond(refused: Refused, send: Send) -> None:
    """Send a refusal."""
    body = to_json(refused.to_dict())
    headers = {"content-type": "application/json", "content-length": str(len(body))} | refused.headers
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _too_large(most: int) -> Refused:
    return Refused(413, f"the body is larger than {most:,} bytes, the limit", code="over_limit")


def _credential(header: bytes) -> bytes:
    """Return the key in an Authorization header: a bearer's token, or the password that a browser asks for."""
    scheme, _, value = header.partition(b" ")
    if scheme.lower() != b"basic":
        return value.strip() if scheme.lower() == b"bearer" else b""
    try:
        return base64.b64decode(value, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give the routes the body that has been read, and then what else comes: that the client has gone."""
    waiting = True

    async def again() -> Message:
        nonlocal waiting
        if waiting:
            waiting = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
