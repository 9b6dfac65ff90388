"""`qkv look`: the attention of a model for one input, on the terminal or in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qkv.cli import completion
from qkv.cli.options import DEVICE, JSON, MODEL
from qkv.cli.texts import on_terminal, print_line, print_note
from qkv.common.terminal import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from qkv.insight.look import Look
    from qkv.insight.look_comparison import LookComparison

app = typer.Typer(rich_markup_mode="rich")
PIPED = 240  # columns, where there is no terminal


@app.command(
    epilog="Examples:  qkv look en-de 'Two dogs play.' --html look.html   |   "
    "qkv look FOLDER 'It is cold.' --layer 2 --head 0   |   qkv look VIT cat.png --html cat.html   |   "
    "qkv look TUNED 'A fine film.' --compare english"
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
        str | None,
        typer.Option(
            metavar="N|rollout",
            help="The layer, from 0; -1 is the last; rollout multiplies all of them. Default: the last, for cross the "
            "one before.",
        ),
    ] = None,
    head: Annotated[int | None, typer.Option(help="The head, from 0. Default: the mean over the heads.")] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page with every layer and head; needs no network.")
    ] = None,
    svg: Annotated[str | None, typer.Option(metavar="FILE", help="Write the matrix as an SVG.")] = None,
    png: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the matrix as a PNG; needs matplotlib.")
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Compare with another model that has the same tokenizer, such as this one before fine-tuning: how far "
            "each head moved, and both models' answers.",
            show_default=False,
            autocompletion=completion.models,
        ),
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Beam size for the model's own translation. Default: 4.")] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Look inside a model: print one attention matrix, or write a page with all of them.

    With --compare, print how far each head is from the other model's.
    """
    from qkv import predict
    from qkv.cli.lines import json_line
    from qkv.common.errors import UsageError
    from qkv.predict.look import look as look_at
    from qkv.predict.look import look_beside

    number = _layer(layer)
    if compare is not None and (svg is not None or png is not None):
        raise UsageError("--svg and --png draw one matrix of one model: leave out --compare, or use --html")
    loaded = predict.load(model, device=device)
    options = {} if beam is None else {"beam": beam}
    if compare is not None:
        other = predict.load(compare, device=device)
        beside = look_beside(loaded, other, text, target, names=(model, compare), **options)
        _compared(beside, number, head, part, html=html, as_json=as_json)
        return
    found = look_at(loaded, text, target, name=model, **options)
    about = found.describe(number, head, part)  # an error if there is no such layer, before anything is written
    for kind, file in (("html", html), ("svg", svg), ("png", png)):
        if file is not None:
            found.save(file, kind=kind, layer=number, head=head, part=part)
            (print_note if as_json else print_line)(f"{file}: {found.about if kind == 'html' else about}")
    if as_json:
        print_line(json_line(found.to_dict(number, head, part)))
    elif html is svg is png is None:
        _show(found, about, number, head, part)


def _layer(given: str | None) -> int | str | None:
    """Read --layer: a number, or rollout."""
    if given is None:
        return None
    return int(given) if given.removeprefix("-").isdecimal() else given


def _compared(
    beside: LookComparison,
    layer: int | str | None,
    head: int | None,
    part: str | None,
    *,
    html: str | None,
    as_json: bool,
) -> None:
    """Print or write a comparison; with a layer or a head, the matrices of both models too."""
    from qkv.cli.lines import json_line

    beside.part(part)
    drawn = layer is not None or head is not None
    pair = [(one, one.describe(layer, head, part)) for one in (beside.look, beside.other)] if drawn else []
    if html is not None:
        beside.save(html)
        (print_note if as_json else print_line)(f"{html}: {beside.about}")
    if as_json:
        print_line(json_line(beside.to_dict()))
    elif html is None:
        screen, colour = _screen()
        screen.print(beside.about, style="bold", markup=False)
        for note in beside.look.notes:
            screen.print(one_line(note), markup=False)
        for one, about in pair:
            screen.print(f"{one_line(one.model)}: {about}", markup=False)
            screen.print(one.heatmap(layer, head, part, colour=colour, width=screen.width))
        screen.print(beside.table(part, colour=colour))


def _screen() -> tuple[Console, bool]:
    """Return where to print, and whether in colours."""
    from rich.console import Console

    colour = on_terminal()
    return Console(width=None if colour else PIPED, highlight=False, soft_wrap=not colour), colour


def _show(found: Look, about: str, layer: int | str | None, head: int | None, part: str | None) -> None:
    """Print one matrix, and what the layers would answer."""
    from rich.text import Text

    from qkv.insight.terminal import answers

    screen, colour = _screen()
    screen.print(Text(f"{one_line(found.model)}: {about}", style="bold"))
    for note in found.notes:
        screen.print(Text(one_line(note)))
    screen.print(found.heatmap(layer, head, part, colour=colour, width=screen.width))
    if found.lens is not None:
        screen.print(answers(found.lens))
