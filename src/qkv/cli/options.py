"""Options that several commands share, and the progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from qkv.cli import completion
from qkv.common.progress import Bar

MODEL = typer.Argument(
    metavar="MODEL",
    help="A model folder, written by qkv or by transformers, or a model on the Hugging Face Hub: hf:OWNER/NAME.",
    show_default=False,
    autocompletion=completion.models,
)
VECTORS = typer.Argument(
    metavar="MODEL",
    help="A model folder, hf:OWNER/NAME, or a file of word vectors (.txt, .vec, .bin, also with .gz).",
    show_default=False,
    autocompletion=completion.models,
)
FILE = typer.Option(
    "--file",
    "--in",
    help="A table (.csv, .tsv, .json, .jsonl, .parquet) with a text column, or a file with one text per line; may be "
    "compressed (.gz, .zip, .xz, .zst).",
    show_default=False,
)
SET = typer.Option(
    "--set",
    metavar="KEY=VALUE",
    help="How to read --file: data.text=COLUMN, data.second=COLUMN, data.format, data.encoding.",
    show_default=False,
)
POOLING = typer.Option(
    help="How token states become one vector: mean, first, last, max, mean_sqrt or weighted_mean. Default: what the "
    "folder says.",
    show_default=False,
)
JSON = typer.Option("--json", help="Print JSON, one object per line.")
DEVICE = typer.Option(
    help="cpu, cuda or cuda:N. Default: CUDA if it is available.",
    show_default=False,
    autocompletion=completion.devices,
)
DTYPE = typer.Option(
    help="float32, or bfloat16 and float16, which are faster on CUDA. Default: float32, whose answers do not depend on "
    "the batch.",
    show_default=False,
    autocompletion=completion.dtypes,
)


@contextmanager
def progress(total: int | None, what: str, long: int = 64) -> Iterator[Callable[[int], None]]:
    """Show a progress bar for long work, from `long` on, or for work of unknown length (None)."""
    with Bar(what, total=total, long=total is None or total >= long) as bar:
        yield bar.add


def files_and_changes(words: Sequence[str], changes: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Part arguments into files and keys of the recipe; shells put the later values of --set among the arguments."""
    from qkv.recipes.schema import parse_change

    files = [word for word in words if "=" not in word]
    return files, dict(map(parse_change, [*changes, *(word for word in words if "=" in word)]))
