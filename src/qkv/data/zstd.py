"""zstd streams: Python's own module if it has one (3.14), else the package `zstandard`."""

from __future__ import annotations

import importlib
import io
from typing import Any

from qkv.data.optional import need

CHUNK = 1 << 10  # bytes in; 4 of them can be a block of 128 kB, so this is 32 MB out at most


class ZstdReader:
    """The decompressed bytes of a zstd file, frame after frame.

    Both libraries have their own readers, but that of `zstandard` accepts a truncated file. This one checks that the
    last frame is complete.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._new, self._error = _library(getattr(raw, "name", "a zstd file"))
        self._frame = self._new()
        self._ready = io.BytesIO()
        self._fresh = False  # between two frames, where a file may end

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, none at the end."""
        while not (data := self._ready.read(size)):
            if not self._advance():
                break
        return data

    def close(self) -> None:
        """Discard what was read ahead."""
        self._ready.close()

    def _advance(self) -> bool:
        """Decompress one more chunk; return False at the end of the file."""
        chunk = (self._frame.unused_data if self._frame.eof else b"") or self._raw.read(CHUNK)
        if self._frame.eof:
            self._frame, self._fresh = self._new(), True
        if not chunk:
            if not self._fresh:
                raise EOFError
            return False
        self._fresh = False
        try:
            self._ready = io.BytesIO(self._frame.decompress(chunk))
        except self._error as error:
            raise OSError(str(error)) from None
        return True


def _library(name: str) -> tuple[Any, type[Exception]]:
    """Return a factory of decompressors for one frame, and the error they raise."""
    try:
        zstd: Any = importlib.import_module("compression.zstd")
    except ImportError:
        package = need("zstandard", f"reading {name}", "zstandard")
        return (lambda: package.ZstdDecompressor().decompressobj()), package.ZstdError
    return zstd.ZstdDecompressor, zstd.ZstdError
