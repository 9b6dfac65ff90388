"""The commands that make a model smaller, or ready for another engine: quantize, prune, export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qkv.cli.options import DEVICE, JSON, MODEL
from qkv.cli.texts import print_line, print_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

app = typer.Typer(rich_markup_mode="rich")


@app.command(epilog="Examples:  qkv quantize FOLDER small   |   qkv classify small 'A film to remember.'")
def quantize(
    model: Annotated[str, MODEL],
    out: Annotated[str, typer.Argument(metavar="OUT", help="Where to write the folder.", show_default=False)],
    to: Annotated[str, typer.Option(metavar="PRECISION", help="int8, or bfloat16: half the size, for GPUs.")] = "int8",
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Write a model folder with weights in int8: a quarter of the size, and on many CPUs several times as fast.

    The command prints whether this machine's CPU computes in that precision. Use the new folder like any other: time it
    with `qkv latency`, and score both folders on your data with `qkv evaluate`.
    """
    from qkv.cli.lines import json_line
    from qkv.predict.quantize import quantize

    found = quantize(model, out, to=to)
    plain = f"{out}: {found.megabytes:.1f} MB (float32: {found.megabytes_before:.1f} MB); runs on {found.engine}"
    plain += f"; {found.note}" if found.note else ""
    print_line(json_line({"folder": out, **found.to_dict()}) if as_json else plain)


@app.command(
    epilog="Examples:  qkv prune runs/reviews small --heads 0.25 --data test.csv --heal   |   "
    "qkv prune BERT small --layers 4   |   qkv prune en-de small --layers decoder:2 --vocabulary a.en --vocabulary a.de"
)
def prune(
    model: Annotated[str, MODEL],
    out: Annotated[
        str | None,
        typer.Argument(metavar="OUT", help="Where to write the folder. Default: runs/NAME-pruned.", show_default=False),
    ] = None,
    heads: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Remove this share of the heads of every layer, the least important ones."),
    ] = None,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|I,J,…",
            help="Drop N layers, or layers by their numbers, counted from 0 (one layer: `3,`). Of a model with encoder "
            "and decoder: encoder:2, decoder:0,3.",
            show_default=False,
        ),
    ] = None,
    vocabulary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Keep only the tokens of the texts in this file; repeat the option for more files.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A file with correct answers, for quality and speed before and after; repeat the option for a "
            "translator's two files.",
            show_default=False,
        ),
    ] = None,
    heal: Annotated[
        bool,
        typer.Option(
            "--heal",
            help="Then train for a short while with the recipe of the model's run, on the files it was trained on; "
            "others with --set data.train=FILE.",
        ),
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="How to read the files (data.text=COLUMN), and keys of the recipe of --heal (train.steps=500).",
        ),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Remove attention heads, layers or tokens for good, and print quality, size and speed before and after.

    Which heads and layers matter least is measured on the model's training files or, if they are not known, on --data.
    Without either, --layers drops the top layers.
    """
    from qkv.cli.lines import json_line
    from qkv.cli.shrinking_tables import pruned_table
    from qkv.recipes.schema import parse_change
    from qkv.runs.prune import Cuts, prune

    cuts = Cuts(heads=heads, layers=dict(map(_layers, layers or [])), vocabulary=tuple(_texts(vocabulary or [], model)))
    found = prune(
        model,
        out or f"runs/{_name(model)}-pruned",
        cuts,
        data=data or [],
        changes=dict(map(parse_change, changes or [])),
        healed=heal,
        device=device,
        say=print_note,
    )
    print_line(json_line(found.to_dict()) if as_json else pruned_table(found))


def _layers(text: str) -> tuple[str, int | list[int]]:
    """Read `4`, `1,3`, `decoder:2` or `decoder:1,3`: the stack, and how many layers or which."""
    from qkv.common.errors import UsageError

    name, colon, given = text.rpartition(":")
    several = [part.strip() for part in given.split(",") if part.strip()]
    if not several or not all(part.isdecimal() for part in several) or (colon and not name):
        raise UsageError(f"--layers takes a number of layers, or layers such as 1,3, or decoder:2, got {text!r}")
    return name, [int(part) for part in several] if "," in given else int(given)


def _texts(files: Sequence[str], model: str) -> Iterator[str]:
    """Read the texts of files; a row of a table may have two."""
    from qkv.cli.items import Source

    for file in files:
        for item in Source([], file, model).items(pair=None):
            yield from item


def _name(model: str) -> str:
    """Return the name of a new folder for a model folder or a name."""
    from pathlib import Path

    return Path(model.rpartition(":")[2].partition("@")[0]).resolve().name


@app.command(
    epilog="Examples:  qkv export FOLDER classifier-onnx   |   qkv export en-de fast --to ctranslate2   |   "
    "qkv translate fast 'Two dogs play.'"
)
def export(
    model: Annotated[str, MODEL],
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="Where to write the export: a new folder.", show_default=False)
    ],
    to: Annotated[
        str,
        typer.Option(metavar="FORMAT", help="onnx (ONNX Runtime), ctranslate2, or torch (compiled by AOTInductor)."),
    ] = "onnx",
    as_json: Annotated[bool, JSON] = False,
) -> None:
    r"""Write a model for another engine, with its tokenizer and settings.

    Every command that answers takes the new folder and runs it with that engine. Programs in other languages read its
    graphs: docs/export.md lists their inputs and outputs. Needs `pip install 'qkv\[export]'`.
    """
    from qkv.cli.lines import json_line
    from qkv.predict.export import export

    found = export(model, out, to=to)
    able = ", ".join(found.verbs) or "hidden states"
    plain = f"{out}: {found.megabytes:.1f} MB, runs on {found.engine}; can {able}"
    print_line(json_line({"folder": out, **found.to_dict()}) if as_json else plain)
