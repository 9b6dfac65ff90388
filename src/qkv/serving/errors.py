"""Refusals: an HTTP status and one sentence, in the shape of OpenAI's errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class Refused(Exception):
    """A request that gets an error instead of an answer.

    Attributes:
        status: the HTTP status.
        message: what is wrong, and what is allowed.
        param: the field of the request that is wrong.
        code: a short name that programs can test for.
        headers: more headers of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    def to_dict(self) -> dict[str, Any]:
        """Return the body of the response."""
        kind = KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def too_many(name: str, got: int, most: int, status: int = 422, param: str = "texts") -> Refused:
    """Return the refusal of a request that is over a limit."""
    return Refused(status, f"the request has {got:,} {name}, and the limit is {most:,}", param=param, code="over_limit")
