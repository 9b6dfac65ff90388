"""The order of the commands in `qkv --help`: by what you want to do."""

from __future__ import annotations

from collections.abc import Iterable

import typer
from typer.models import CommandInfo

PANELS = {
    "Train and score": ("train", "evaluate", "recipes", "runs", "compare", "glue", "energy"),
    "Use": (
        *("classify", "tag", "answer", "fill", "translate", "generate", "score"),
        *("embed", "similar", "search", "cluster", "vectors"),
    ),
    "Look inside": ("info", "look", "explain", "heads", "layers"),
    "Shrink": ("shrink", "distill", "prune", "quantize", "export", "latency"),
    "Serve": ("serve",),
}


def name_of(command: CommandInfo) -> str:
    """Return the name that a user types."""
    assert command.callback is not None
    return command.name or command.callback.__name__


def arrange(app: typer.Typer, parts: Iterable[typer.Typer]) -> None:
    """Add the commands of parts to those of an app, and put all of them into panels."""
    commands = [*app.registered_commands, *(command for part in parts for command in part.registered_commands)]
    places = {name: (panel, row) for panel, names in PANELS.items() for row, name in enumerate(names)}
    order = list(places)
    for command in commands:
        command.rich_help_panel = places[name_of(command)][0]
    app.registered_commands = sorted(commands, key=lambda command: order.index(name_of(command)))
