"""`qkv glue`: the GLUE benchmark."""

from __future__ import annotations

from typing import Annotated

import typer

from qkv.cli.options import DEVICE, JSON
from qkv.cli.texts import print_line, print_note

app = typer.Typer(rich_markup_mode="rich")


@app.command(epilog="Example:  qkv glue glue_data --model FOLDER --tasks CoLA,SST-2 --seeds 3")
def glue(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="The folder with one subfolder of TSV files per GLUE task.", show_default=False
        ),
    ],
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE…]", help="More values after --set.", show_default=False)
    ] = None,
    model: Annotated[
        str, typer.Option(help="A model folder, hf:OWNER/NAME, or a preset to train from scratch.")
    ] = "english",
    tasks: Annotated[
        str | None, typer.Option(help="Tasks to run, such as CoLA,SST-2. Default: all that the folder has.")
    ] = None,
    out: Annotated[str, typer.Option(help="Where to keep runs and scores.")] = "runs/glue",
    epochs: Annotated[float | None, typer.Option(help="Passes over the data. Default: the recipe decides.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs per task, each with a different seed.")] = 1,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE …", help="Change values of every recipe.")
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Fine-tune and score every GLUE task in a folder. Run the same command again to continue where it stopped."""
    from qkv.cli.lines import json_line
    from qkv.recipes.schema import parse_change
    from qkv.runs.glue import glue as run_glue
    from qkv.runs.glue import table

    found = run_glue(
        folder,
        model,
        out=out,
        tasks=[name for name in (tasks or "").split(",") if name.strip()],
        epochs=epochs,
        seeds=seeds,
        changes=dict(map(parse_change, [*(changes or []), *(more or [])])),
        device=device,
        say=print_note,
    )
    print_line(json_line(found) if as_json else table(found))
