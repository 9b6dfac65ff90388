"""`qkv look`: the attention of a model for one input, on the terminal or in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qkv.cli.options import DEVICE, JSON, MODEL
from qkv.cli.texts import on_terminal, print_line, print_note
from qkv.common.terminal import one_line

if TYPE_CHECKING:
    from qkv.insight.look import Look

app = typer.Typer(rich_markup_mode="rich")
PIPED = 240  # columns, where there is no terminal


@app.command(
    epilog="Examples:  qkv look en-de 'Two dogs play.' --html look.html   |   "
    "qkv look FOLDER 'It is cold.' --layer 2 --head 0   |   qkv look VIT cat.png --html cat.html"
)
def look(
    model: Annotated[str, MODEL],
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help="A text; for a model of images, a PNG or JPEG file.", show_default=False),
    ],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="For a translator, the translation; by default its own. For an encoder, the second text of a pair.",
            show_default=False,
        ),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(help="encoder, decoder or cross (decoder over source). Default: cross, or the only one."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="The layer, from 0; -1 is the last. Default: the last, for cross the one before.")
    ] = None,
    head: Annotated[int | None, typer.Option(help="The head, from 0. Default: the mean over the heads.")] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page with every layer and head; needs no network.")
    ] = None,
    svg: Annotated[str | None, typer.Option(metavar="FILE", help="Write the matrix as an SVG.")] = None,
    png: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the matrix as a PNG; needs matplotlib.")
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Beam size for the model's own translation. Default: 4.")] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Look inside a model: print one attention matrix, or write a page with all of them."""
    from qkv import predict
    from qkv.cli.lines import json_line
    from qkv.predict.look import look as look_at

    loaded = predict.load(model, device=device)
    found = look_at(loaded, text, target, name=model, **({} if beam is None else {"beam": beam}))
    about = found.describe(layer, head, part)  # an error if there is no such layer, before anything is written
    for kind, file in (("html", html), ("svg", svg), ("png", png)):
        if file is not None:
            found.save(file, kind=kind, layer=layer, head=head, part=part)
            (print_note if as_json else print_line)(f"{file}: {found.about if kind == 'html' else about}")
    if as_json:
        print_line(json_line(found.to_dict(layer, head, part)))
    elif html is svg is png is None:
        _show(found, about, layer, head, part)


def _show(found: Look, about: str, layer: int | None, head: int | None, part: str | None) -> None:
    """Print one matrix, and what the layers would answer."""
    from rich.console import Console
    from rich.text import Text

    from qkv.insight.terminal import answers

    colour = on_terminal()
    screen = Console(width=None if colour else PIPED, highlight=False, soft_wrap=not colour)
    width = screen.width if colour else PIPED
    screen.print(Text(f"{one_line(found.model)}: {about}", style="bold"))
    for note in found.notes:
        screen.print(Text(one_line(note)))
    screen.print(found.heatmap(layer, head, part, colour=colour, width=width))
    if found.lens is not None:
        screen.print(answers(found.lens))
