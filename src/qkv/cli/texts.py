"""Texts of a command: given on the line, in a file, or on standard input; and where the answers go."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import typer

from qkv.common import disk
from qkv.common.errors import UsageError
from qkv.data.files import read_lines

STANDARD_INPUT = ["-"]
CHUNK = 256  # texts that are held at a time


def find_texts(arguments: list[str], file: str | None) -> Iterator[str]:
    """Give the texts one after the other; lines are read as they are asked for, the first of them at once."""
    if file is not None and arguments:
        raise UsageError("texts on the command line and --file are two sources: give one of them")
    if file is None and not arguments:
        raise UsageError("nothing to read: give texts, --file FILE, or - for standard input")
    if file is None and arguments != STANDARD_INPUT:
        return iter(arguments)
    name = file or "standard input"
    lines = (text for _, text in read_lines(file)) if file else standard_input()
    first = next(lines, None)
    if first is None:
        raise UsageError(f"{name} is empty: give at least one line")
    return chain([first], lines)


def count_texts(arguments: list[str], file: str | None) -> int | None:
    """Count the texts for a bar, or None where that cannot be known; only a terminal is worth reading a file twice."""
    if file is None:
        return None if arguments == STANDARD_INPUT else len(arguments)
    if not sys.stderr.isatty():
        return None
    return sum(1 for _ in read_lines(file)) if os.path.isfile(file.partition("!")[0]) else None


def chunk_of(arguments: list[str]) -> int:
    """Return how many texts are answered at a time: somebody who types waits for each."""
    return 1 if arguments == STANDARD_INPUT and sys.stdin.isatty() else CHUNK


def standard_input() -> Iterator[str]:
    r"""Give the lines of standard input as they come; a line ends at \n or \r\n and nowhere else."""
    offset = 0
    for line in sys.stdin.buffer:
        try:
            text = line.decode("utf-8" if offset else "utf-8-sig")
        except UnicodeDecodeError as error:
            place, byte = offset + error.start, line[error.start]
            raise UsageError(f"standard input is not UTF-8: byte {place} is {byte:#04x}") from None
        offset += len(line)
        yield text.removesuffix("\n").removesuffix("\r")


@contextmanager
def opened(out: str | None) -> Iterator[Callable[[str], None]]:
    """Give what writes a line: to standard output at once, or to a file that stands in its place only when it is whole.

    Half a surrogate pair, which UTF-8 has not, is written as a question mark.
    """
    if out is None:
        yield lambda line: typer.echo(f"{line}\n".encode("utf-8", "replace"), nl=False)
        return
    file = Path(out)
    with disk.streaming(file) as stream:
        yield lambda line: _write(stream.write, f"{line}\n".encode("utf-8", "replace"), file)


def _write(write: Callable[[bytes], int], data: bytes, file: Path) -> None:
    with disk.no_space(str(file)):
        write(data)
