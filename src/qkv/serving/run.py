"""Run the server: a socket, uvicorn, and a stop that drains."""

from __future__ import annotations

import contextlib
import errno
import logging
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from qkv.common.errors import QkvError, reason_of
from qkv.serving.app import Served
from qkv.serving.connection import Connection
from qkv.serving.guard import LOG, log
from qkv.serving.limits import Limits

KEEP_ALIVE = 75  # seconds; longer than the 60 of common load balancers, so that they close first


def bind(host: str, port: int) -> socket.socket:
    """Open the socket; port 0 takes any free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen()  # or a second server could bind, too, until this one takes connections
    except (OSError, OverflowError) as error:
        told = reason_of(error) if isinstance(error, OSError) else "a port is at most 65535"
        hint = "; --port 0 takes a free one" if isinstance(error, OSError) and error.errno == errno.EADDRINUSE else ""
        raise QkvError(f"{host}:{port} cannot be opened: {told}{hint}") from None
    return found


def serve(app: Served, limits: Limits, place: socket.socket, begun: Callable[[], None]) -> bool:
    """Answer until SIGINT or SIGTERM; then finish what is being answered. False if there is no model to answer with.

    Args:
        app: the application; it says when it has no model.
        limits: of connections.
        place: an open socket.
        begun: called when connections are taken.
    """
    _set_up_log()
    protocol = type("Limited", (Connection,), {"limits": limits})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        loop="uvloop",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here asks who the client is
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(limits.deadline) + 1,
        backlog=1024,
    )
    server = _Server(config, begun)
    app.compute.hopeless = server.give_up
    server.run(sockets=[place])
    return not server.gave_up


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it has begun, and after a signal ends like any other program that is done."""

    def __init__(self, config: uvicorn.Config, begun: Callable[[], None]) -> None:
        super().__init__(config)
        self._begun, self.gave_up = begun, False

    def give_up(self) -> None:
        """Stop, because no model could be loaded."""
        self.gave_up = self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._begun()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: Any) -> None:
        log("draining" if not self.should_exit else "stopping", signal=signal.Signals(sig).name)
        super().handle_exit(sig, frame)


def _set_up_log() -> None:
    """Write the log's lines of JSON to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOG.handlers, LOG.propagate = [handler], False
    LOG.setLevel(logging.INFO)
    errors = logging.getLogger("uvicorn.error")
    errors.setLevel(logging.ERROR)
    errors.addHandler(_AsJson())


class _AsJson(logging.Handler):
    """Writes what uvicorn reports as lines of JSON, without text of users."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        place = traceback.extract_tb(record.exc_info[2])[-1:] if record.exc_info else []
        where = [f"{one.filename}:{one.lineno}" for one in place]
        log("server error", level=record.levelno, message=str(record.msg).strip(), exception=kind, where=where)
