"""`qkv serve`: models behind HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from qkv.cli import completion
from qkv.cli.options import DEVICE
from qkv.cli.texts import print_note
from qkv.serving.limits import Limits

app = typer.Typer(rich_markup_mode="rich")
LIMITS = "Limits"  # a panel of --help


@app.command(
    epilog="Examples:  qkv serve   |   qkv serve runs/phrasebook --port 8080   |   "
    "QKV_API_KEY=secret qkv serve runs/reviews runs/tags --host 0.0.0.0"
)
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL…",
            help="Model folders, hf:OWNER/NAME or built-in names; each is served under its folder's name. Default: the "
            "built-in models.",
            show_default=False,
            autocompletion=completion.models,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in, and needs an API key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="QKV_API_KEY",
            help="What clients must send as a bearer token. Others on this machine can see a command line: better set "
            "the environment variable.",
            show_default=False,
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Let web pages of this origin (https://example.org) send requests; repeat it for more.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[str | None, DEVICE] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads to compute with. Default: one for each core.", show_default=False),
    ] = None,
    deadline: Annotated[
        float, typer.Option(min=0.1, help="Seconds until a request without an answer gets 504.", rich_help_panel=LIMITS)
    ] = Limits.deadline,
    queue: Annotated[
        int, typer.Option(min=1, help="Requests that may wait or run; beyond that, 429.", rich_help_panel=LIMITS)
    ] = Limits.queue,
    patience: Annotated[
        float,
        typer.Option(
            min=0.01, help="Seconds of estimated work that may wait; beyond that, 429.", rich_help_panel=LIMITS
        ),
    ] = Limits.patience,
    max_body: Annotated[int, typer.Option(min=1024, help="Bytes of a request.", rich_help_panel=LIMITS)] = Limits.body,
    max_texts: Annotated[int, typer.Option(min=1, help="Texts of a request.", rich_help_panel=LIMITS)] = Limits.texts,
    max_characters: Annotated[
        int, typer.Option(min=1, help="Characters of a request.", rich_help_panel=LIMITS)
    ] = Limits.characters,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of a request.", rich_help_panel=LIMITS)
    ] = Limits.tokens,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens to generate for each text.", rich_help_panel=LIMITS)
    ] = Limits.new_tokens,
    log_text: Annotated[bool, typer.Option("--log-text", help="Write what users send into the log.")] = False,
) -> None:
    """Serve models over HTTP, with a page to try them on: every verb, and the routes of OpenAI and TEI clients.

    Ctrl-C or SIGTERM finishes the answers that have begun, then stops.
    """
    from qkv.serving.start import Order, start

    limits = Limits(
        body=max_body,
        texts=max_texts,
        characters=max_characters,
        tokens=max_tokens,
        new_tokens=max_new_tokens,
        queue=queue,
        patience=patience,
        deadline=deadline,
    )
    order = Order(models or [], host, port, api_key, cors or [], device, threads, limits, log_text)
    start(order, say=print_note)
