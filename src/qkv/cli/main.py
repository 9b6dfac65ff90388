"""The `qkv` command: standard output carries the answer, standard error the progress.

Exit codes: 0 done, 1 failed, 2 wrong usage. A command parses, calls one function, prints.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from qkv.common.errors import QkvError, UsageError
from qkv.version import __version__

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)

MODEL = typer.Argument(metavar="MODEL", help="A model folder, written by qkv or by transformers.", show_default=False)
JSON = typer.Option("--json", help="Print JSON, one object a line.")
DEVICE = typer.Option(help="cpu, cuda or cuda:N; CUDA where there is one if not given.", show_default=False)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"qkv {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train, look inside, shrink and serve your own Transformer."""
    del version


@app.command(epilog="Examples:  qkv info bert-base   |   qkv info path/to/folder --json")
def info(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model folder or the name of a preset.", show_default=False)
    ],
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Describe a model folder or a preset: family, sizes, parameters, memory, attention kernel, tokenizer."""
    from qkv import predict
    from qkv.cli.show import facts

    found = predict.info(model)
    typer.echo(json.dumps(found, ensure_ascii=False) if as_json else facts(model, found))


@app.command(epilog="Examples:  qkv embed FOLDER 'a sentence' 'another'   |   qkv embed FOLDER - < lines.txt")
def embed(
    model: Annotated[str, MODEL],
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT…|-", help="Texts, or - to read one a line.", show_default=False)
    ],
    normalize: Annotated[bool, typer.Option(help="Scale each vector to length 1.")] = False,
    pooling: Annotated[str | None, typer.Option(help="mean or first; the folder's own way if not given.")] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Turn each text into a vector: one line of numbers a text."""
    from qkv import predict

    lines = _texts(texts)
    loaded = predict.load(model, device=device)
    with _progress(len(lines), "embedding") as advance:
        vectors = loaded.embed(lines, normalize=normalize, pooling=pooling, progress=advance)
    for text, vector in zip(lines, vectors.tolist(), strict=True):
        typer.echo(
            json.dumps({"text": text, "embedding": vector}, ensure_ascii=False)
            if as_json
            else " ".join(f"{x:.6f}" for x in vector)
        )


@app.command(epilog="Example:  qkv similar FOLDER 'A dog runs.' 'An animal is running.'")
def similar(
    model: Annotated[str, MODEL],
    a: Annotated[str, typer.Argument(metavar="A", help="A text.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another text.", show_default=False)],
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Print how alike two texts are: the cosine of their vectors, from -1 to 1."""
    from qkv import predict

    cosine = predict.load(model, device=device).similar(a, b)
    typer.echo(json.dumps({"a": a, "b": b, "cosine": cosine}, ensure_ascii=False) if as_json else f"{cosine:.4f}")


@app.command(epilog="Examples:  qkv translate FOLDER 'Two dogs play.'   |   qkv translate FOLDER - < lines.txt")
def translate(
    model: Annotated[str, MODEL],
    texts: Annotated[list[str], typer.Argument(metavar="TEXT…|-", help="Texts, or - for lines.", show_default=False)],
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Translate each text: one line out for one line in."""
    from qkv import predict

    lines = _texts(texts)
    loaded = predict.load(model, device=device)
    with _progress(len(lines), "translating") as advance:
        found = loaded.translate(lines, progress=advance)
    for text, translation in zip(lines, found, strict=True):
        row = {"text": text, "translation": translation}
        typer.echo(json.dumps(row, ensure_ascii=False) if as_json else translation)


@app.command(epilog="Examples:  qkv train phrasebook   |   qkv train translate --set data.train=[a.en,a.de] --resume")
def train(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A shipped recipe by name, or a TOML file.", show_default=False)
    ],
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE…]", help="More values after --set.", show_default=False)
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE …", help="Change values of the recipe; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="A run of seconds, to see that everything works.")] = False,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Train a model from files to a folder, as a recipe says."""
    from qkv.recipes.run import run_recipe
    from qkv.recipes.schema import read_recipe

    asked = read_recipe(recipe, [*(changes or []), *(more or [])], debug=debug)
    outcome = run_recipe(asked, resume=resume, device=device, say=lambda line: typer.echo(line, err=True))
    found = {"folder": asked.out, "ended": outcome.reason, "steps": outcome.step, "valid_loss": outcome.best}
    plain = f"{asked.out}: {outcome.reason} after {outcome.step} steps, best validation loss {outcome.best}"
    typer.echo(json.dumps(found | {"energy": outcome.energy}) if as_json else plain)


@app.command(epilog="Examples:  qkv evaluate FOLDER test.en test.de   |   qkv evaluate FOLDER test.tsv --json")
def evaluate(
    model: Annotated[str, MODEL],
    data: Annotated[list[str], typer.Argument(metavar="FILE…", help="Files with the answers.", show_default=False)],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Name a column: text, second, label, separator, unit."),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Score a model on files: each metric with its 95 % interval and its signature."""
    from qkv import predict
    from qkv.common.config import override
    from qkv.evaluation.report import as_json as report
    from qkv.evaluation.report import table
    from qkv.recipes import evaluate as evaluation
    from qkv.recipes.schema import parse_change
    from qkv.training.config import DataConfig

    columns = override(DataConfig(), dict(map(parse_change, changes or [])))
    scores = evaluation.evaluate(predict.load(model, device=device), data, columns)
    typer.echo(json.dumps(report(scores), ensure_ascii=False) if as_json else table(scores))


def _texts(arguments: list[str]) -> list[str]:
    """Take the texts given, or one a line from standard input."""
    if arguments != ["-"]:
        return arguments
    data = sys.stdin.buffer.read()
    try:
        text = data.decode("utf-8").removesuffix("\n")  # a line ends at a newline alone
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8: byte {error.start} is {data[error.start]:#04x}") from None
    if not data:
        raise UsageError("standard input is empty: give at least one line")
    return [line.removesuffix("\r") for line in text.split("\n")]


@contextmanager
def _progress(total: int, what: str) -> Iterator[Any]:
    """Show a bar on standard error for long work; nothing where it is not a terminal."""
    if total < 64 or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


def run() -> None:
    """Run the command line; an error is one sentence, never a traceback."""
    warnings.showwarning = lambda message, *_: print(f"qkv: {message}", file=sys.stderr)  # noqa: T201
    try:
        app()
    except QkvError as error:
        typer.echo(f"qkv: {error}", err=True)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        typer.echo("qkv: stopped", err=True)
        raise SystemExit(130) from None
