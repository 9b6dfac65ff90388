"""The commands about recipes and runs: recipes, runs."""

from __future__ import annotations

from typing import Annotated

import typer

from qkv.cli import completion
from qkv.cli.options import DEVICE, JSON, progress
from qkv.cli.texts import print_line, print_note

app = typer.Typer(rich_markup_mode="rich")


@app.command(epilog="Examples:  qkv recipes   |   qkv recipes classify")
def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A shipped recipe, or a TOML file. Default: list all.",
            show_default=False,
            autocompletion=completion.recipes,
        ),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """List the shipped recipes, or show one recipe with all its values."""
    from dataclasses import asdict

    from qkv.cli.lines import json_line
    from qkv.recipes.shelf import comment_of, listed, text_of

    if name is None:
        from qkv.cli.run_tables import columns

        plain = columns([[one.name, one.summary] for one in listed()])
        print_line("\n".join(json_line(asdict(one)) for one in listed()) if as_json else plain)
        return
    from qkv.common.config import to_toml
    from qkv.recipes.auto import with_auto
    from qkv.recipes.schema import read_recipe

    recipe = read_recipe(name)
    values = with_auto(asdict(recipe), recipe.auto or ())
    comment = comment_of(text_of(name))
    if as_json:
        print_line(json_line({"name": name, "summary": comment[0], **values}))
    else:
        print_line("\n".join([*(f"# {line}".rstrip() for line in comment if line), "", to_toml(values).rstrip()]))


@app.command(
    epilog="Examples:  qkv runs   |   qkv runs runs/a runs/b --compare   |   qkv runs runs/a runs/b --data test.tsv"
)
def runs(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FOLDER…", help="Runs, or folders with runs in them. Default: runs.", show_default=False
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show which settings differ, and the curves side by side.")
    ] = False,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Compare, and score every run on this file, with a paired test; repeat it for several files.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """List runs with their state and scores, or compare them."""
    from qkv.cli.lines import json_line
    from qkv.cli.run_tables import comparison, run_table
    from qkv.common.errors import UsageError
    from qkv.runs.compare import curves, differences, score_runs
    from qkv.runs.history import find_runs, summary_of

    found = find_runs(folders or ["runs"])
    if not compare and not data:
        summaries = [summary_of(folder) for folder in found]
        print_line("\n".join(json_line(one.to_dict()) for one in summaries) if as_json else run_table(summaries))
        return
    if len(found) < 2:
        raise UsageError(f"there is one run, {found[0]}: name two or more to compare")
    scores = []
    if data:
        with progress(None, "scoring") as advance:
            scores = score_runs(found, data, device=device, say=print_note, progress=advance)
    names, settings, drawn = list(map(str, found)), differences(found), curves(found)
    if as_json:
        print_line(json_line({"runs": names, "settings": settings, "curves": drawn, "scores": scores}))
    else:
        print_line(comparison(names, settings, drawn, scores))
