"""A connection with limits: clients that send or read too slowly, or send endless headers, are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

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
        self._running: RequestResponseCycle | None = None
        if len(self.connections) > self.limits.connections:
            self._refuse(503)
            return
        self._wait("receive", self.limits.receive, lambda: self._refuse(408))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        for name in list(self._timers):
            self._stop(name)
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; a head may not have too many."""
        if self.transport.is_closing():
            return
        if self._head >= 0:
            self._head += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head > HEAD_BYTES:
            self._refuse(431)
            return
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.timeout_keep_alive_task is None and "receive" not in self._timers:
            # uvicorn no longer counts this connection as idle, but what came, an empty line, begins no request.
            self._wait("receive", self.limits.receive, lambda: self._refuse(408))

    def on_message_begin(self) -> None:
        """Begin to wait for the rest of a request."""
        super().on_message_begin()
        self._wait("receive", self.limits.receive, lambda: self._refuse(408))

    def on_headers_complete(self) -> None:
        """Stop counting the head."""
        self._head = -1
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False  # no protocol but this one is spoken here, and the parser reads no further

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

    def on_response_complete(self) -> None:
        """Go on to the next request. A last answer that nobody reads is not kept for ever."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._close()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if its client has never read the last answer."""
        self._close()

    def shutdown(self) -> None:
        """Close when the server stops, if nothing is being answered."""
        super().shutdown()
        if self.transport.is_closing():
            self._close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, and give up the request before it."""
        self._leave()
        super().send_400_response(msg)
        self._close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Remember which of several requests on this connection runs: it need not be the newest."""
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _leave(self) -> None:
        """Tell the request that runs that its client has gone, so that its work is dropped."""
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def _close(self) -> None:
        """Close when what was written has been read, or at the latest after some time."""
        self.transport.close()
        self._stop("receive")
        self._wait("close", self.limits.send, self.transport.abort)

    def _wait(self, what: str, seconds: float, then: Callable[[], None]) -> None:
        self._stop(what)
        self._timers[what] = self.loop.call_later(seconds, then)

    def _stop(self, what: str) -> None:
        if (timer := self._timers.pop(what, None)) is not None:
            timer.cancel()

    def _refuse(self, status: int) -> None:
        """Answer without an application, unless there is an answer already, and close."""
        cycle = self.cycle
        reading = self._head < 0  # the body of this request, else the head of the next one
        if cycle is None or not cycle.response_started or (cycle.response_complete and not reading):
            self.transport.write(ANSWERS[status])
        self._leave()
        self._close()
