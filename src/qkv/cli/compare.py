"""`qkv compare`: variants of a recipe side by side, or what each kind of layer costs."""

from __future__ import annotations

from typing import Annotated

import typer

from qkv.cli import completion
from qkv.cli.options import DEVICE, JSON
from qkv.cli.texts import print_line, print_note

app = typer.Typer(rich_markup_mode="rich")


@app.command(
    epilog="Examples:  qkv compare positions   |   qkv compare mine.toml --seeds 3 --out runs/mine   |   "
    "qkv compare models --set data.train=\\[a.en,a.de]   |   qkv compare layers"
)
def compare(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE.toml|layers",
            help="A shipped comparison (models, objectives, positions, positions-translate), a TOML file, or layers: "
            "time and memory of each kind of layer, beside theory.",
            show_default=False,
            autocompletion=completion.comparisons,
        ),
    ],
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE…]", help="More values after --set.", show_default=False)
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE …",
            help="Change keys of the comparison (metric, lengths, budget.seconds) or of every recipe (train.steps).",
            autocompletion=completion.settings,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="The folder for runs, table and picture. Default: runs/NAME.", show_default=False),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Train each variant with the seeds 1 to N.", metavar="N", show_default=False)
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Small numbers, as a quick test.")] = False,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Train each variant of a comparison with each seed, and print one table and draw one picture.

    A comparison is one TOML file. Run the same command again to continue where it stopped; `qkv runs FOLDER` lists its
    runs one by one.
    """
    from qkv.cli.lines import json_line
    from qkv.common.errors import UsageError
    from qkv.recipes.comparison import LAYERS

    given = [*(changes or []), *(more or [])]
    if what == LAYERS:
        if given or seeds is not None:
            raise UsageError("layers trains nothing: it takes --out, --debug, --json and --device only")
        _layers(out, debug=debug, as_json=as_json, device=device)
        return
    from pathlib import Path

    from qkv.cli.comparison_tables import compared_table
    from qkv.recipes.comparison import read_comparison
    from qkv.runs.comparison import PICTURE
    from qkv.runs.comparison import compare as run_comparison

    if seeds is not None and seeds < 1:
        raise UsageError(f"--seeds must be at least 1, got {seeds}")
    if seeds is not None:
        given.append(f"seeds={list(range(1, seeds + 1))}")
    name = Path(what).stem if what.endswith(".toml") else what
    folder = out or f"runs/{name}"
    found = run_comparison(read_comparison(what, given, debug=debug), name, folder, device=device, say=print_note)
    print_line(json_line(found.to_dict()) if as_json else compared_table(found))
    print_note(f"picture: {Path(folder) / PICTURE}")


def _layers(out: str | None, *, debug: bool, as_json: bool, device: str | None) -> None:
    from qkv.cli.layer_tables import layer_table
    from qkv.cli.lines import json_line
    from qkv.insight.layer_costs import SMALL, measure
    from qkv.insight.layer_picture import save
    from qkv.predict.device import find_device

    found = measure(find_device(device), SMALL if debug else None)
    print_line(json_line(found.to_dict()) if as_json else layer_table(found))
    print_note(f"picture: {save(found, out or 'runs/layers')}")
