"""How many bytes of request bodies the server holds, from their arrival to the end of the answer.

Bytes count when they are here, not when they are announced: a client that announces much and sends nothing keeps
nobody out. The first 64 kB of a body are free, so that small requests get through while large ones are refused.
"""

from __future__ import annotations

from types import TracebackType

from qkv.serving.errors import Refused
from qkv.serving.limits import Limits

FREE = 65_536  # bytes of each body that do not count


class Bodies:
    """The bodies of all requests together."""

    def __init__(self, limits: Limits) -> None:
        self.most, self.held = max(limits.bodies, limits.body), 0

    def one(self) -> Body:
        """Return the body of a request, which is empty yet; leave it to let go of its bytes."""
        return Body(self)


class Body:
    """The body of one request."""

    def __init__(self, all_bodies: Bodies) -> None:
        self._all, self._counted = all_bodies, 0
        self.size = 0

    def __enter__(self) -> Body:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._all.held -= self._counted

    def add(self, size: int) -> None:
        """Count more bytes, or refuse the request if there is no room for them."""
        more = max(0, self.size + size - FREE) - self._counted
        if self._all.held + more > self._all.most:
            raise Refused(
                429,
                f"the server holds {self._all.held:,} bytes of other requests, and the limit is {self._all.most:,}: "
                "try again in 1 s",
                code="overloaded",
                headers={"Retry-After": "1"},
            )
        self.size += size
        self._counted += more
        self._all.held += more
