"""A connection with limits: clients that send or read too slowly, or send endless headers, are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from qkv.serving.limits import HEAD_BYTES, Limits

ANSWERS = {
    408: b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    503: b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
}


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP connection, with the limits that it leaves out."""

    limits = Limits()
    _head = 0  # bytes of a head that is not complete; -1 while a body is read

    def connection_made(self, transport: Any) -> None:
        """Start to wait for a request."""
        super().connection_made(transport)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        if len(self.connections) > self.limits.connections:
            self._refuse(503)
            return
        self._wait("receive", self.limits.receive, lambda: self._refuse(408))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        for name in list(self._timers):
            self._stop(name)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; a head may not have too many."""
        if self.transport.is_closing():
            return
        if self._head >= 0:
            self._head += len(data)
        super().data_received(data)
        if self._head > HEAD_BYTES and not self.transport.is_closing():
            self._refuse(431)

    def on_message_begin(self) -> None:
        """Begin to wait for the rest of a request."""
        super().on_message_begin()
        self._wait("receive", self.limits.receive, lambda: self._refuse(408))

    def on_headers_complete(self) -> None:
        """Stop counting the head."""
        self._head = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is here: the answer may take its time."""
        self._head = 0
        self._stop("receive")
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read: give it some time."""
        super().pause_writing()
        self._wait("send", self.limits.send, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._stop("send")
        super().resume_writing()

    def _wait(self, what: str, seconds: float, then: Callable[[], None]) -> None:
        self._stop(what)
        self._timers[what] = self.loop.call_later(seconds, then)

    def _stop(self, what: str) -> None:
        if (timer := self._timers.pop(what, None)) is not None:
            timer.cancel()

    def _refuse(self, status: int) -> None:
        """Answer without an application, unless an answer has begun, and close."""
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(ANSWERS[status])
        self.transport.close()
