"""Put a report together, and write its page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from qkv.common import disk
from qkv.exams.report.contents import Report, RunFacts
from qkv.exams.report.page import page
from qkv.exams.report.usage import usage
from qkv.exams.study import Study
from qkv.predict import Model
from qkv.version import __version__

SIZES = ("dim", "num_layers", "num_decoder_layers", "num_heads", "ff_dim", "vocab_size", "max_length")
LABELS = 20  # named in the report


def report_of(
    model: Model | None, name: str, study: Study | None, *, run: RunFacts | None = None, notes: Sequence[str] = ()
) -> Report:
    """Return the report on a model.

    Args:
        model: the model; None if only the caller's own code can load it.
        name: its folder, or the name of a built-in model.
        study: what its answers show, if its task has answers.
        run: how it was trained, if that is known.
        notes: what a reader should know.
    """
    return Report(
        title=Path(name).name or name,
        model={} if model is None else _facts(model),
        study=study,
        run=run,
        usage=() if model is None else usage(model, name, pairs=study is not None and study.texts == 2),
        notes=tuple(notes),
        made=f"Written by qkv {__version__} on {date.today().isoformat()}.",
    )


def write_page(file: Path, report: Report) -> None:
    """Write the page to a file."""
    with disk.no_space(str(file)):
        disk.replace_file(file, page(report).encode())


def _facts(model: Model) -> dict[str, str]:
    found = model.describe()
    sizes = {key: value for key in SIZES if isinstance(value := found["sizes"].get(key), int) and value}
    facts = {"family": found["family"], "weights": f"{found['parameters']:,}", "stored as": found["stored_as"]}
    facts |= {key.replace("_", " "): f"{value:,}" for key, value in sizes.items()}
    if found["position"]:
        facts["positions"] = found["position"]
    if tokenizer := found["tokenizer"]:
        facts["tokenizer"] = f"{tokenizer['kind']}, {tokenizer['vocab_size']:,} tokens"
    if tasks := found["tasks"]:
        facts["tasks"] = ", ".join(f"{name} ({prefix!r})" for name, prefix in tasks.items())
    if labels := found["labels"]:
        more = f" and {len(labels) - LABELS} more" if len(labels) > LABELS else ""
        facts["labels"] = ", ".join(labels[:LABELS]) + more
    return facts
