"""`qkv energy`: the energy and CO2 of runs, and the pay-back point of a smaller model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from qkv.cli.options import DEVICE, FILE, JSON
from qkv.cli.texts import print_line

if TYPE_CHECKING:
    from qkv.runs.carbon import Footprint
    from qkv.runs.payback import Payback

app = typer.Typer(rich_markup_mode="rich")


@app.command(
    epilog="Examples:  qkv energy runs   |   qkv energy runs/a runs/b --grid 56   |   "
    "qkv energy --teacher en-fr --student runs/small"
)
def energy(
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN…", help="Runs, or folders with runs in them. Default: runs.", show_default=False),
    ] = None,
    grid: Annotated[
        float | None,
        typer.Option(
            metavar="G",
            help="Grams of CO2 per kWh of your power grid. Default: what each run recorded, which is 480 (about the "
            "world's average) unless train.carbon_intensity says otherwise.",
            show_default=False,
        ),
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A large model, for a pay-back point.", show_default=False)
    ] = None,
    student: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="The smaller model that answers in its place.", show_default=False),
    ] = None,
    file: Annotated[str | None, FILE] = None,
    watts: Annotated[
        float | None,
        typer.Option(
            metavar="W",
            help="Power while answering. Default: the machine's energy counters or, where there are none, 10 W per CPU "
            "core and 500 W per GPU.",
            show_default=False,
        ),
    ] = None,
    training_kwh: Annotated[
        float | None,
        typer.Option(
            metavar="KWH", help="What the student's training cost, if its folder does not say.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Add up the energy and CO2 of runs, beside figures from the literature.

    With --teacher and --student: after how many answers a smaller model has saved what its training cost. Both answer
    the texts of --file, or sentences of the built-in phrasebook.
    """
    from qkv.cli.lines import json_line
    from qkv.cli.texts import find_texts
    from qkv.common.errors import UsageError
    from qkv.runs.carbon import footprint
    from qkv.runs.payback import payback

    if (teacher is None) != (student is None):
        raise UsageError("a pay-back point takes both --teacher and --student")
    if teacher is None or student is None:
        if file is not None or watts is not None or training_kwh is not None:
            raise UsageError("--file, --watts and --training-kwh are for --teacher and --student")
        found = footprint(folders or ["runs"], grid)
        print_line(json_line(found.to_dict()) if as_json else footprint_table(found))
        return
    if folders or grid is not None:
        raise UsageError("runs and --grid are for adding up: leave them out with --teacher and --student")
    texts = [] if file is None else list(find_texts([], file))
    paid = payback(teacher, student, texts, watts=watts, training_kwh=training_kwh, device=device)
    print_line(json_line(paid.to_dict()) if as_json else payback_table(paid))


def footprint_table(found: Footprint) -> str:
    """Format runs with their sum, then the sum beside the references."""
    from qkv.cli.run_tables import columns, duration
    from qkv.runs.carbon import POUND, REFERENCES, SOURCE, kwh_words

    rows = [["run", "time", "energy", "CO2", "grid"]]
    for run in found.runs:
        mark = " ~" if run.estimated else ""
        cells = [duration(run.seconds), kwh_words(run.kwh) + mark, _mass(run.co2_g), f"{run.intensity:g} g/kWh"]
        rows.append([run.folder, *cells])
    if len(found.runs) > 1:
        rows.append(["all", duration(found.seconds), kwh_words(found.kwh), _mass(found.co2_g), ""])
    shares = found.shares()
    beside = [["beside", "CO2", "these runs are"]]
    beside += [[name, _mass(1000 * pounds * POUND), _share(shares[name])] for name, pounds in REFERENCES.items()]
    notes = [f"({SOURCE})"]
    if any(run.estimated for run in found.runs):
        notes.insert(0, "~ estimated: watts times seconds, where no counter could be read")
    notes += [f"{folder} has no energy.json and is not counted" for folder in found.unknown]
    return "\n\n".join([columns(rows), columns(beside), "\n".join(notes)])


def payback_table(found: Payback) -> str:
    """Format what both models cost and the point where the student has paid."""
    from qkv.cli.run_tables import columns

    rows = [["", "model", "parameters", "ms per answer", "joules per answer"]]
    for name, one in (("teacher", found.teacher), ("student", found.student)):
        costs = [f"{one.parameters:,}", f"{1000 * one.seconds:.3g}", f"{one.joules:.3g}"]
        rows.append([name, one.model, *costs])
    return f"{columns(rows)}\n\n{found.told()}"


def _mass(grams: float) -> str:
    for unit, size in (("t", 1e6), ("kg", 1e3), ("g", 1.0)):
        if grams >= size or unit == "g":
            return f"{grams / size:.3g} {unit}"
    raise AssertionError


def _share(share: float) -> str:
    if share >= 0.01:
        return f"{share:.3g} times that"
    return f"1 in {1 / share:,.0f} of that" if share > 0 else "nothing of that"
