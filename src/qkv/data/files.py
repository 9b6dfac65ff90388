"""Files as streams of lines: gzip, bzip2, xz, zstd and zip are read as if they were plain.

Only one line is held in memory, and a line has a limit. Encodings are told apart in encodings.py.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import hashlib
import io
import lzma
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from qkv.common.errors import QkvError, UsageError
from qkv.data.archives import BROKEN, cut, find_member, is_zipped, match_members, open_member
from qkv.data.encodings import decoded_lines
from qkv.data.limits import LINE, WHOLE, too_large
from qkv.data.split import cut_part
from qkv.data.zstd import ZstdReader

PathName = str | os.PathLike[str]
Paths = PathName | Sequence[PathName]

HUB = "hf:"  # a data set of the Hugging Face hub, not a file
OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": ZstdReader,
}


def open_binary(path: PathName) -> BinaryIO:
    """Open a file for reading bytes; the ending of its name selects the decompression."""
    name = os.fspath(path)
    raw, inner = open_member(name) if is_zipped(name) and not os.path.isdir(name) else (_open_plain(name), name)
    suffix = Path(inner).suffix.lower()
    if suffix not in OPENERS and inner == name:
        return raw
    try:
        stream = OPENERS[suffix](raw) if suffix in OPENERS else raw
    except QkvError:
        raw.close()
        raise
    return cast(BinaryIO, io.BufferedReader(_Guarded(name, stream, raw), 1 << 16))


def read_lines(path: PathName, limit: int = LINE, encoding: str = "", folder: str = "") -> Iterator[tuple[int, str]]:
    r"""Yield the number (from 1) and the text of each line; only \n and \r\n end a line.

    Args:
        path: the file.
        limit: the maximum size of a line in bytes.
        encoding: as in `decoded_lines`.
        folder: as in `decoded_lines`.
    """
    with open_binary(path) as stream:
        yield from decoded_lines(stream, os.fspath(path), limit, encoding, folder)


def read_text(path: PathName, encoding: str = "", folder: str = "") -> str:
    r"""Return a whole file as text, with \n between its lines."""
    lines, size = [], 0
    for _, text in read_lines(path, WHOLE, encoding, folder):
        size += len(text) + 1
        if size > WHOLE:
            raise too_large(os.fspath(path), "file", WHOLE)
        lines.append(text)
    return "\n".join(lines)


def content_name(path: PathName) -> str:
    """Return the name without compression: `a.csv` for `a.csv.gz`, or for a zip archive that contains only `a.csv`."""
    name = os.fspath(path)
    inner = find_member(name)[1] if is_zipped(name) else name
    suffix = Path(inner).suffix
    return inner.removesuffix(suffix) if suffix.lower() in OPENERS else inner


def expand(paths: Paths) -> list[str]:
    """Expand paths and patterns (`*`, `?`, `[...]`, `**`) to file names; the matches of a pattern are sorted.

    A part of a file (`#train`, `#valid`, `#test`) stays at the end of the name.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    names = [name for path in paths for name in _matches(os.fspath(path))]
    if not names:
        raise UsageError("no file is given")
    return names


def is_piped(path: PathName) -> bool:
    """Return whether a path is a pipe or a device, which can be read once only."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def check_rereadable(path: PathName) -> None:
    """Raise for a pipe or a device: reading it a second time would wait for ever."""
    if is_piped(path):
        raise UsageError(f"{os.fspath(path)} is not a regular file, and it must be read more than once")


def stored_file(path: PathName) -> Path:
    """Return the file or folder on disk behind a path, without an archive member or a part."""
    name = os.fspath(path)
    return Path(name if os.path.exists(name) else cut(cut_part(name)[0])[0])


def digest_of(path: PathName) -> str:
    """Return a cheap fingerprint for cache keys: it changes with the name, size or modification time. Nothing is read.

    The fingerprint of a folder covers all files in it; that of a Hub data set covers its name.
    """
    name = os.fspath(path)
    if name.startswith(HUB):
        return _hash([name])
    stored = stored_file(name)
    member = cut(name)[1] or cut_part(name)[1]
    if not stored.exists():
        raise UsageError(f"{stored} does not exist")
    files = sorted(file for file in stored.rglob("*") if file.is_file()) if stored.is_dir() else [stored]
    stats = [(file.relative_to(stored.parent), file.stat()) for file in files]
    return _hash([f"{file}\0{member}\0{stat.st_size}\0{stat.st_mtime_ns}" for file, stat in stats])


class _Guarded(io.RawIOBase):
    """A compressed stream that reports every failure as an error that names the file."""

    def __init__(self, name: str, stream: Any, raw: Any) -> None:
        self._name = name
        self._stream = stream
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except EOFError:
            raise QkvError(f"{self._name} is truncated: its compressed data ends too early") from None
        except (*BROKEN, lzma.LZMAError, MemoryError) as error:  # xz allocates as much as its header says
            raise QkvError(f"{self._name} cannot be decompressed: {error or 'it needs too much memory'}") from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._raw.close()  # a decompressor does not close what it was given
        super().close()


def _open_plain(name: str) -> BinaryIO:
    try:
        return open(name, "rb")
    except FileNotFoundError:
        raise UsageError(f"{name} does not exist") from None
    except IsADirectoryError:
        raise UsageError(f"{name} is a folder, not a file; {os.path.join(name, '*')} matches the files in it") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise QkvError(f"{name} cannot be opened: {getattr(error, 'strerror', None) or error}") from None


def _matches(name: str) -> list[str]:
    whole, part = cut_part(name)
    if part is not None and not os.path.exists(name):
        return [f"{found}#{part}" for found in _matches(whole)]
    # A file whose own name contains brackets is not a pattern.
    if name.startswith(HUB) or not glob.has_magic(name) or os.path.exists(name):
        return [name]
    in_archive = cut(name)[1] is not None
    found = match_members(name) if in_archive else [n for n in glob.glob(name, recursive=True) if os.path.isfile(n)]
    if not found:
        raise UsageError(f"no file matches {name}")
    return sorted(found)


def _hash(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]
