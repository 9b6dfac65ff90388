"""`qkv latency`: how long a model's answers take, with every engine that can run it."""

from __future__ import annotations

from typing import Annotated

import typer

from qkv.cli import completion
from qkv.cli.options import DEVICE, JSON, MODEL
from qkv.cli.texts import print_line, print_note

app = typer.Typer(rich_markup_mode="rich")


@app.command(
    epilog="Examples:  qkv latency FOLDER   |   qkv latency FOLDER --quick --svg latency.svg   |   "
    "qkv latency en-de --batch 1 --length 16,32 --new-tokens 20 --engine native --engine native-int8"
)
def latency(
    model: Annotated[str, MODEL],
    batch: Annotated[
        str | None, typer.Option(metavar="N,…", help="Inputs of a call. Default: 1,8,32.", show_default=False)
    ] = None,
    length: Annotated[
        str | None,
        typer.Option(
            metavar="N,…",
            help="Tokens of each text. Default: 16,64,256, or what the model takes if that is less.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="torch, torch-bf16, native, native-int8, onnxruntime, ctranslate2 or torch-compiled; repeat the "
            "option for several. Default: all that can run the model, but torch-compiled.",
            show_default=False,
            autocompletion=completion.engines,
        ),
    ] = None,
    new_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", help="Tokens of each answer that is generated. Default: 32.", show_default=False),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Beam size. Default: 4 for translators, 1 for other models.", show_default=False
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(metavar="N", help="Turns of each engine. Default: 5.", show_default=False)
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Time of each engine at each batch size and length. Default: 2.", show_default=False
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="CPU threads. Default: one per core.", show_default=False)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes and less time, for a first look.")] = False,
    svg: Annotated[str | None, typer.Option(metavar="FILE", help="Draw the measurement as an SVG.")] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Time a model's answers with every engine that can run it, and recommend one.

    Engines take turns. Times are of single calls, from token ids or pixels to the model's answer: half of the calls
    take no longer than p50, 99 % no longer than p99. For an engine that changes the numbers, the table shows how well
    its answers agree with those in float32.
    """
    from pathlib import Path

    from qkv.cli.latency_tables import latency_table
    from qkv.cli.lines import json_line
    from qkv.common import disk
    from qkv.predict.latency.measure import latency

    if svg is not None:
        disk.plain_file(Path(svg))  # an error before minutes of work
    found = latency(
        model,
        device=device,
        batches=_numbers("--batch", batch),
        lengths=_numbers("--length", length),
        engines=engine or [],
        rounds=rounds,
        seconds=seconds,
        new_tokens=new_tokens,
        beam=beam,
        threads=threads,
        quick=quick,
    )
    print_line(json_line(found.to_dict()) if as_json else latency_table(found))
    if svg is not None:
        found.save(svg)
        print_note(f"picture: {svg}")


def _numbers(name: str, text: str | None) -> list[int] | None:
    """Read `1,8,32`."""
    from qkv.common.errors import UsageError

    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError(f"{name} takes whole numbers such as 1,8,32, got {text!r}")
    return [int(part) for part in parts]
