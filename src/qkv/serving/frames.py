"""Frames between the HTTP process and the compute process: a JSON object and any number of byte strings.

length of the object │ length of the rest │ the object, which has the sizes of the parts │ part │ part …
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO

from pydantic_core import from_json, to_json

HEAD = struct.Struct("!II")
Frame = tuple[dict[str, Any], list[bytes]]


def pack(fields: dict[str, Any], parts: Sequence[bytes] = ()) -> bytes:
    """Write a frame."""
    head = to_json(fields | {"sizes": [len(part) for part in parts]} if parts else fields)
    return b"".join([HEAD.pack(len(head), sum(map(len, parts))), head, *parts])


def read(stream: BinaryIO) -> Frame | None:
    """Read a frame; None where the stream ends."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    sizes = HEAD.unpack(head)
    data = stream.read(sum(sizes))
    return _split(data, sizes[0]) if len(data) == sum(sizes) else None


async def receive(stream: asyncio.StreamReader) -> Frame | None:
    """Read a frame; None where the stream ends."""
    try:
        sizes = HEAD.unpack(await stream.readexactly(HEAD.size))
        return _split(await stream.readexactly(sum(sizes)), sizes[0])
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def _split(data: bytes, start: int) -> Frame:
    fields = from_json(data[:start])
    parts = []
    for size in fields.pop("sizes", ()):
        parts.append(data[start : start + size])
        start += size
    return fields, parts
