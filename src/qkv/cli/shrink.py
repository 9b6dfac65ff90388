"""`qkv shrink`: smaller versions of a model side by side, and the one that meets a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from qkv.cli import completion
from qkv.cli.options import DEVICE, JSON, MODEL, files_and_changes
from qkv.cli.texts import print_line, print_note

if TYPE_CHECKING:
    from qkv.runs.shrink import Shrunk

app = typer.Typer(rich_markup_mode="rich")


@app.command(
    epilog="Examples:  qkv shrink runs/reviews --target '5 ms'   |   qkv shrink runs/reviews --target '10 MB' "
    "--target '-1 point' --resume   |   qkv shrink BERT train.csv --test test.csv --target '-0.5 points' --quick"
)
def shrink(
    model: Annotated[str, MODEL],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA…] [KEY=VALUE…]",
            help="Training files with answers, and more values after --set. Default: the files of the model's own run.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET",
            help="What the model must reach: '5 ms' for one answer on this machine (median), '10 MB' for the weights, "
            "'-1 point' for the score (a hundredth of accuracy or F1, a point of BLEU). Repeat it to combine targets.",
            show_default=False,
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Score on this file; repeat it for a translator's two files. Default: held-out training examples.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Try only what needs no training.")] = False,
    out: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Default: runs/NAME-shrunk.", show_default=False)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on in the same folder: what is finished is not trained again.")
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE …",
            help="How to read the files (data.text=COLUMN), and keys of the recipe of the training runs "
            "(train.steps=500, distill.temperature=4); may be repeated.",
            autocompletion=completion.settings,
        ),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Try distilling, pruning and quantising a model, and write the version that meets your target.

    Candidates, cheapest first: the model as it is; without a quarter of its heads; without half of its layers, trained
    for a short while; a distilled student with a third of the layers; and each of them in int8. All are scored on
    examples that none was trained on, and timed in turns. Of those that meet every target, the one with the best score
    is written, ties by speed; with '-1 point' alone, the fastest, and of those that are about as fast, the smallest. If
    none does, the command says which came nearest, writes no model and exits with 1.
    """
    from qkv.cli.lines import json_line
    from qkv.cli.shrinking_tables import shrunk_table
    from qkv.runs.shrink import shrink

    files, changed = files_and_changes(data or [], changes or [])
    place = changed.pop("out", out)
    how: dict[str, Any] = {"test": test, "quick": quick, "resume": resume, "device": device, "say": print_note}

    def show(found: Shrunk) -> None:
        print_line(json_line(found.to_dict()) if as_json else shrunk_table(found))

    shrink(model, files or None, target=target or [], out=place, on_result=show, **how, **changed)
