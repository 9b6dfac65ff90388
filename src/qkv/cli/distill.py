"""`qkv distill`: a smaller model that learns from a trained one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from qkv.cli import completion
from qkv.cli.options import DEVICE, JSON, files_and_changes
from qkv.cli.texts import print_line, print_note

if TYPE_CHECKING:
    from qkv.runs.student_report import Comparison

app = typer.Typer(rich_markup_mode="rich")


@app.command(
    epilog="Examples:  qkv distill runs/reviews reviews.csv   |   qkv distill runs/reviews --texts lines.txt --layers 2"
    "   |   qkv distill runs/en-de --sequences   |   qkv distill BERT data.csv --set model.preset=bert-mini "
    "distill.attention=1"
)
def distill(
    teacher: Annotated[
        str,
        typer.Argument(
            metavar="TEACHER",
            help="The model to learn from: a model folder, a built-in name or hf:OWNER/NAME.",
            show_default=False,
            autocompletion=completion.models,
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA…] [KEY=VALUE…]",
            help="Training files, and more values after --set. Default: the files of the teacher's own run.",
            show_default=False,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE …",
            help="Change values of the recipe, such as distill.temperature=4; may be repeated.",
            autocompletion=completion.settings,
        ),
    ] = None,
    texts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Learn from texts without answers, one per line or from a table: the teacher answers them. Repeat it "
            "for several files.",
            show_default=False,
        ),
    ] = None,
    sequences: Annotated[
        bool,
        typer.Option(
            "--sequences",
            help="Learn the teacher's own answers to the training texts: of a translator, its beam output.",
        ),
    ] = False,
    layers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How many layers of the teacher the student begins with, chosen evenly; of an encoder-decoder, of its "
            "encoder. Default: a third; all of such an encoder.",
            show_default=False,
        ),
    ] = None,
    decoder_layers: Annotated[
        int | None, typer.Option(metavar="N", help="The same for its decoder. Default: a third.", show_default=False)
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Default: runs/TEACHER-student.", show_default=False)
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Score teacher and student on this file; repeat it.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Run for a few seconds, as a quick test.")] = False,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Train a smaller model that learns what a trained one says.

    The student has the teacher's task and vocabulary. It begins with some of the teacher's layers, or as any other
    model (--set model.preset=NAME), and learns the teacher's probabilities beside the labels. In the end both are
    compared: quality, size, time and energy of an answer, and after how many answers the training has paid.
    """
    from qkv.cli.lines import json_line
    from qkv.runs.distil import train_student
    from qkv.runs.student_report import compared, comparison_of

    files, changed = files_and_changes(data or [], changes or [])
    if sequences:
        changed["distill.answers"] = True
    place = changed.pop("out", out)
    how: dict[str, Any] = {"out": place, "layers": layers, "decoder_layers": decoder_layers, "texts": texts or []}
    how |= {"test": test, "resume": resume, "debug": debug, "device": device, "say": print_note}
    recipe, outcome = train_student(teacher, files or None, **how, **changed)
    if not outcome.finished:
        print_line(f"{recipe.out}: stopped by {outcome.reason} after {outcome.step} steps")
        raise typer.Exit(1)
    found = comparison_of(recipe.out) or compared(recipe, device=device)
    print_line(json_line(found.to_dict()) if as_json else comparison_table(found))


def comparison_table(found: Comparison) -> str:
    """Format teacher and student side by side, and the pay-back point."""
    from qkv.cli.run_tables import columns

    return f"{found.folder}\n\n{columns(found.rows())}\n\n{found.told()}"
