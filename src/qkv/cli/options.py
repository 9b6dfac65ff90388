"""Options that commands share, and the bar of long work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from qkv.common.progress import Bar

MODEL = typer.Argument(metavar="MODEL", help="A model folder, written by qkv or by transformers.", show_default=False)
VECTORS = typer.Argument(
    metavar="MODEL", help="A model folder, or a file of word vectors (.txt, .vec, .bin; .gz too).", show_default=False
)
FILE = typer.Option("--file", "--in", help="A file of lines; .gz, .zip and such too.", show_default=False)
POOLING = typer.Option(
    help="mean, first, last, max, mean_sqrt or weighted_mean; what the folder says if not given.", show_default=False
)
JSON = typer.Option("--json", help="Print JSON, one object a line.")
DEVICE = typer.Option(help="cpu, cuda or cuda:N; CUDA where there is one if not given.", show_default=False)


@contextmanager
def progress(total: int | None, what: str) -> Iterator[Callable[[int], None]]:
    """Show a bar for long work, or for work that nobody knows the length of (None)."""
    with Bar(what, total=total, long=total is None or total >= 64) as bar:
        yield bar.add
