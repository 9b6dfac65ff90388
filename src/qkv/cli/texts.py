"""Standard input, how many texts there are, and where the output of a command goes; items.py has the texts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from qkv.common import disk
from qkv.common.terminal import one_line, visible
from qkv.data.encodings import decoded_lines
from qkv.data.files import read_lines

STANDARD_INPUT = ["-"]
CHUNK = 256  # texts held at a time


def find_texts(
    arguments: list[str], file: str | None, model: str | None = None, changes: Sequence[str] | None = None
) -> Iterator[str]:
    """Yield the texts of a command; the folder `model` or `changes` may say which column of a table holds them."""
    from qkv.cli.items import Source

    return Source(arguments, file, model, changes or ()).lines()


def count_texts(arguments: list[str], file: str | None) -> int | None:
    """Count the texts for a progress bar, or return None if unknown. A file is read twice only for a terminal."""
    if file is None:
        return None if arguments == STANDARD_INPUT else len(arguments)
    if not sys.stderr.isatty():
        return None
    return sum(1 for _ in read_lines(file)) if os.path.isfile(file.partition("!")[0]) else None


def chunk_of(arguments: list[str]) -> int:
    """Return how many texts to answer at a time: one by one for somebody who types them."""
    return 1 if arguments == STANDARD_INPUT and sys.stdin.isatty() else CHUNK


def standard_input(encoding: str = "") -> Iterator[str]:
    r"""Yield the lines of standard input as they arrive; a line ends at \n or \r\n and nowhere else."""
    return (text for _, text in decoded_lines(sys.stdin.buffer, "standard input", encoding=encoding))


def print_line(line: str) -> None:
    """Print an answer; on a terminal, control characters are written as escapes.

    A file or another program gets the text as it is, but for a lone surrogate, which UTF-8 does not have: it becomes a
    question mark.
    """
    text = visible(line) if on_terminal() else line
    typer.echo(f"{text}\n".encode("utf-8", "replace"), nl=False)


def print_piece(text: str) -> None:
    """Print a part of an answer at once, without a line end; control characters as in `print_line`."""
    shown = visible(text) if on_terminal() else text
    typer.echo(shown.encode("utf-8", "replace"), nl=False)
    sys.stdout.flush()


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def print_note(line: str) -> None:
    """Print what a long command reports to standard error."""
    typer.echo(visible(line), err=True)


def print_message(message: object) -> None:
    """Print an error or a warning to standard error, as one line."""
    typer.echo(one_line(f"qkv: {message}"), err=True)


@contextmanager
def opened(out: str | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a line: to standard output, or to a file that appears only when it is complete.

    A lone surrogate, which UTF-8 does not have, is written as a question mark.
    """
    if out is None:
        yield print_line
        return
    file = Path(out)
    with disk.streaming(file) as stream:
        yield lambda line: _write(stream.write, f"{line}\n".encode("utf-8", "replace"), file)


def _write(write: Callable[[bytes], int], data: bytes, file: Path) -> None:
    with disk.no_space(str(file)):
        write(data)
