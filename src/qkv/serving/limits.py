"""What one request, and all of them together, may cost. Every refusal names its limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

HEAD_BYTES = 65_536  # request line and headers
PICTURE_CHARACTERS = 2_000  # of a text whose every attention matrix, or every word's effect, is computed


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a server.

    Attributes:
        body: bytes of a request's body.
        bodies: bytes of the bodies of all requests together, each beyond its first 65,536; beyond that, 429.
        texts: texts of a request.
        characters: characters of all texts of a request together.
        tokens: tokens of all texts of a request together.
        new_tokens: tokens to generate for each text.
        queue: requests that wait or run; beyond it, 429.
        patience: seconds of estimated work that may wait; beyond it, 429 once `spare` requests wait.
        spare: requests that may wait however long their work takes.
        deadline: seconds until an answer; later ones are dropped with 504.
        receive: seconds for a client to send a request.
        send: seconds for a client to read what was sent to it.
        connections: open connections.
    """

    body: int = 8 << 20
    bodies: int = 256 << 20
    texts: int = 512
    characters: int = 400_000
    tokens: int = 65_536
    new_tokens: int = 1024
    queue: int = 256
    patience: float = 0.5
    spare: int = 8
    deadline: float = 60.0
    receive: float = 15.0
    send: float = 30.0
    connections: int = 1024

    def to_dict(self) -> dict[str, Any]:
        """Return the limits for JSON."""
        return asdict(self)


def texts_of(columns: Mapping[str, Sequence[str]], options: Mapping[str, Any]) -> list[str]:
    """Return all texts of a request that a model reads; the lines of a search are an option."""
    return [*(text for values in columns.values() for text in values), *options.get("lines", ())]


def cost_of(columns: Mapping[str, Sequence[str]], options: Mapping[str, Any]) -> int:
    """Estimate the tokens of a request, for batches and waiting times."""
    texts = texts_of(columns, options)
    return 2 * len(texts) + sum(map(len, texts)) // 4
