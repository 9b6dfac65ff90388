"""Lines of text from bytes: in the encoding you name, else in UTF-8 or UTF-16, else in a guess that a warning states.

byte order mark, or zero bytes        UTF-16 (UTF-32)
valid UTF-8                           UTF-8
ASCII up to the first other line      cp1252, the superset of Latin-1 that Windows writes
"""

from __future__ import annotations

import codecs
import io
import warnings
from collections.abc import Iterator
from itertools import count
from typing import Any, BinaryIO

from qkv.common.errors import QkvError, UsageError, show
from qkv.data.limits import LINE, too_large

UTF8 = "utf-8"
WESTERN = "cp1252"
MARKS = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
FOREIGN = (  # files that people take for tables
    (b"PK\x03\x04", "an Excel workbook or a zip archive: save it as CSV, or name it .zip"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook: save it as CSV"),
    (b"%PDF", "a PDF: save it as text"),
)
PEEKED = 1 << 10  # bytes that tell UTF-16 from UTF-8
BINARY = frozenset(range(32)) - frozenset(b"\t\n\v\f\r\x1a\x1b")  # bytes that no text in a one-byte encoding has
REMEDY = "set data.encoding to the encoding of the file"


class Guessed(UserWarning):
    """A file is not UTF-8; the message names the encoding that is used instead."""


def decoded_lines(
    stream: BinaryIO, name: str, limit: int = LINE, encoding: str = "", folder: str = ""
) -> Iterator[tuple[int, str]]:
    r"""Yield the number (from 1) and the text of each line; only \n and \r\n end a line.

    Args:
        stream: the bytes.
        name: the file, for messages.
        limit: the maximum size of a line in bytes.
        encoding: a name that Python knows; empty to detect it.
        folder: if the file is one of many in a folder, a guess is stated for the folder.
    """
    for number, text in enumerate(_whole_lines(stream, name, limit, encoding, folder), 1):
        yield number, text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def decoded(data: bytes, name: str) -> str:
    """Return a whole text with its line ends unchanged."""
    stream = io.BufferedReader(io.BytesIO(data))
    return "".join(_whole_lines(stream, name, len(data)))


def _whole_lines(stream: BinaryIO, name: str, limit: int, encoding: str = "", folder: str = "") -> Iterator[str]:
    codec = codec_of(encoding) if encoding else _by_first_bytes(stream, name, folder)
    if codec == UTF8:
        return _guessing(stream, name, limit, not encoding, folder)
    return _decoding(stream, name, limit, codec)


def codec_of(encoding: str) -> str:
    """Return Python's name of a text encoding."""
    try:
        "".encode(encoding)  # refuses codecs that are not for text, such as base64
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        known = "utf-8, utf-16, latin-1, cp1252, cp1251, shift_jis or gb18030"
        raise UsageError(f"data.encoding: unknown encoding {show(encoding, 40)}; use one such as {known}") from None


def bounded_lines(stream: Any, name: str, limit: int = LINE) -> Iterator[Any]:
    """Yield the lines of a stream of bytes or text with their line ends; raise at one that is longer than `limit`."""
    for number in count(1):
        try:
            line = stream.readline(limit + 1)
        except OSError as error:
            raise QkvError(f"{name} cannot be read: {error.strerror or error}") from None
        if not line:
            return
        if len(line) > limit:
            raise too_large(f"{name}:{number}", "line", limit)
        yield line


def _by_first_bytes(stream: Any, name: str, folder: str) -> str:
    """Tell UTF-16 by its mark or by the zero bytes of its ASCII characters, which no other text has."""
    try:
        head: bytes = stream.peek(PEEKED)[:PEEKED]
    except OSError as error:
        raise QkvError(f"{name} cannot be read: {error.strerror or error}") from None
    for mark, codec in MARKS:
        if head.startswith(mark):
            return codec
    for signature, kind in FOREIGN:
        if head.startswith(signature):
            raise UsageError(f"{name} is not text but {kind}")
    low, high = head[0::2].count(0), head[1::2].count(0)
    if 40 * (low + high) < len(head) or not low + high:  # at most a stray zero
        return UTF8
    codec = "utf-16-le" if high > 3 * low else "utf-16-be" if low > 3 * high else UTF8
    if codec != UTF8:
        _say_guess(name, codec, folder)
    return codec


def _guessing(stream: BinaryIO, name: str, limit: int, guesses: bool, folder: str) -> Iterator[str]:
    """Decode UTF-8. If the first line that is not ASCII is not UTF-8 either, decode that and all others as cp1252."""
    codec, offset = UTF8, 0
    for number, line in enumerate(bounded_lines(stream, name, limit), 1):
        mark = len(codecs.BOM_UTF8) if number == 1 and line.startswith(codecs.BOM_UTF8) else 0
        guesses = guesses and not mark
        try:
            text = line[mark:].decode(codec)
        except UnicodeDecodeError as error:
            where, at = f"{name}:{number}", offset + mark + error.start
            if codec != UTF8 or not guesses:
                raise QkvError(
                    f"{where}: byte {line[mark + error.start]:#04x} at offset {at} is not {_said(codec)}; {REMEDY}"
                ) from None
            codec, text = WESTERN, _western(line, where, at)
            _say_guess(name, codec, folder)
        guesses = guesses and (codec != UTF8 or text.isascii())
        yield text
        offset += len(line)


def _western(line: bytes, where: str, at: int) -> str:
    """Decode a line as cp1252, unless it is binary, or most of its bytes are not ASCII as in other scripts."""
    if BINARY & set(line):
        raise QkvError(f"{where}: the file is not text: it has the byte {min(BINARY & set(line)):#04x}")
    high = sum(byte >= 128 for byte in line)
    try:
        if high <= 4 or 2 * high <= len(line.strip()):
            return line.decode(WESTERN)
    except UnicodeDecodeError:
        pass
    raise QkvError(
        f"{where}: the text at offset {at} is neither UTF-8 nor {WESTERN}; {REMEDY}, such as cp1251 or gb18030"
    )


def _decoding(stream: BinaryIO, name: str, limit: int, codec: str) -> Iterator[str]:
    """Decode an encoding whose line ends may be several bytes."""
    text = io.TextIOWrapper(stream, codec, newline="\n")
    number = 0
    try:
        for number, line in enumerate(bounded_lines(text, name, limit), 1):
            yield line.removeprefix("\ufeff") if number == 1 else line
    except (UnicodeError, EOFError) as error:
        raise QkvError(f"{name}:{number + 1}: not {codec} ({error}); {REMEDY}") from None
    finally:
        text.detach()  # the caller closes the stream


def _say_guess(name: str, codec: str, folder: str) -> None:
    what = f"{folder} has files that are not UTF-8: they are" if folder else f"{name} is not UTF-8: it is"
    warnings.warn(f"{what} read as {codec}; if letters look wrong, {REMEDY}", Guessed, stacklevel=2)


def _said(codec: str) -> str:
    return "UTF-8" if codec == UTF8 else codec
