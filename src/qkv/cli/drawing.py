"""Print drawings: with colours on a terminal, as plain lines into files and pipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qkv.cli.texts import on_terminal, print_line

if TYPE_CHECKING:
    from rich.console import Group


def show(draw: Callable[[bool], Group]) -> None:
    """Print a drawing; `draw` gets whether there are colours."""
    from rich.console import Console

    console = Console(highlight=False)
    colour = on_terminal() and console.color_system is not None and not console.no_color
    drawn = draw(colour)
    if colour:
        console.print(drawn, crop=False)
    else:
        print_line("\n".join(str(part) for part in drawn.renderables))
