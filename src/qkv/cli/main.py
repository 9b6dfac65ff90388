"""The `qkv` command. Results go to standard output, progress and messages to standard error.

Exit codes: 0 done; 1 failed, or stopped by a signal and resumable; 2 wrong usage; 130 stopped with Ctrl-C; 143 stopped
by SIGTERM. A command parses its arguments, calls one function and prints the result.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections import Counter
from contextlib import suppress
from typing import Annotated, Any

import typer

from qkv.cli import (
    compare,
    completion,
    distill,
    energy,
    explain,
    generating,
    glue,
    latency,
    look,
    measures,
    panels,
    reading,
    runs,
    serve,
    shrink,
    shrinking,
    threads,
    vectors,
)
from qkv.cli.options import DEVICE, DTYPE, JSON, MODEL, SET, progress
from qkv.cli.texts import print_line, print_message, print_note
from qkv.common.errors import QkvError, Shortened, reason_of, system_errors
from qkv.version import __version__

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"qkv {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train, look inside, shrink and serve your own Transformer."""
    del version


@app.command(epilog="Examples:  qkv info bert-base   |   qkv info path/to/folder --json")
def info(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model folder, hf:OWNER/NAME or the name of a preset.",
            show_default=False,
            autocompletion=completion.models,
        ),
    ],
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Describe a model folder or a preset: family, sizes, parameters, memory, attention kernel, tokenizer."""
    from qkv import predict
    from qkv.cli.lines import json_line
    from qkv.cli.show import facts

    found = predict.info(model)
    print_line(json_line(found) if as_json else facts(model, found))


@app.command(
    epilog="Examples:  qkv translate en-de 'Two dogs play.'   |   qkv translate FOLDER - < in.txt > out.txt"
    "   |   qkv translate T5 'Two dogs play.' --source-prefix 'translate English to German: '"
)
def translate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model folder, hf:OWNER/NAME or a built-in translator.",
            show_default=False,
            autocompletion=completion.models,
        ),
    ],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT…|-", help="Texts, or - to read lines from standard input.", show_default=False),
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "--in", help="A file with one text per line; may be compressed.")
    ] = None,
    changes: Annotated[list[str] | None, SET] = None,
    out: Annotated[str | None, typer.Option(help="Write to a file, which appears only when it is complete.")] = None,
    beam: Annotated[int, typer.Option(help="Beam size; 1 is greedy search.")] = 4,
    nbest: Annotated[int, typer.Option(help="Translations per text, printed as number ||| text ||| score.")] = 1,
    length_penalty: Annotated[float, typer.Option(help="Higher values favour longer translations.")] = 1.0,
    max_length: Annotated[int | None, typer.Option(help="Maximum tokens per translated sentence.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Start every translation with this text.")] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a text-to-text model, the task whose prefix to put before each text. Default: the one that "
            "translates; `qkv info` lists them.",
            show_default=False,
        ),
    ] = None,
    source_prefix: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="What the model reads before each text, instead of --task.", show_default=False
        ),
    ] = None,
    forbid: Annotated[
        list[str] | None, typer.Option(help="A word that must not occur; repeat the option for more.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Print each translation's score.")] = False,
    alignments: Annotated[bool, typer.Option("--alignments", help="Print word alignments, such as 0-0 1-2.")] = False,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
    dtype: Annotated[str, DTYPE] = "float32",
) -> None:
    """Translate texts as a stream: one line of output per line of input, in the same order."""
    from qkv import predict
    from qkv.cli.texts import chunk_of, count_texts, find_texts, opened
    from qkv.cli.translations import translate_lines

    loaded = predict.load(model, device=device, dtype=dtype)
    options = {"beam": beam, "nbest": nbest, "length_penalty": length_penalty, "max_length": max_length}
    asked = {"task": task, "source_prefix": source_prefix}
    lines = translate_lines(
        loaded,
        find_texts(texts or [], file, None, changes),
        options | asked | {"prefix": prefix, "forbidden": forbid or [], "chunk": chunk_of(texts or [])},
        scores=scores,
        alignments=alignments,
        as_json=as_json,
    )
    with opened(out) as write, progress(count_texts(texts or [], file), "translating") as advance:
        for line in lines:
            write(line)
            advance(1)


@app.command(
    epilog="Examples:  qkv train reviews.csv   |   qkv train translate --set data.train=\\[a.en,a.de]   |   "
    "qkv train runs/translate --resume"
)
def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE|DATA|FOLDER",
            help="A shipped recipe by name (`qkv recipes` lists them), a TOML file, a data file, or with --resume the "
            "folder of a run.",
            show_default=False,
            autocompletion=completion.recipes,
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE…]",
            help="More values after --set.",
            show_default=False,
            autocompletion=completion.settings,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE …",
            help="Change values of the recipe; may be repeated.",
            autocompletion=completion.settings,
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    search: Annotated[bool, typer.Option("--search", help="Keep the best of three learning rates.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count rows that cannot be used.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Run for a few seconds, as a quick test.")] = False,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Train a model with a recipe and write it to a folder.

    Ctrl-C or SIGTERM saves the run and ends it with exit code 1; continue it with --resume. A second Ctrl-C stops it at
    once with exit code 130.
    """
    from qkv.cli.lines import json_line
    from qkv.cli.show import closing
    from qkv.evaluation.report import as_json as report
    from qkv.evaluation.report import table
    from qkv.runs.report import PAGE
    from qkv.runs.resume import Order, carry_out
    from qkv.runs.run import score_test

    changed = [*(changes or []), *(more or []), *(["data.skip_bad=true"] if skip_bad else [])]
    order = Order(recipe, changed, resume=resume, search=search, debug=debug)
    asked, outcome = carry_out(order, device=device, say=print_note)
    found = {"folder": asked.out, "ended": outcome.reason, "steps": outcome.step}
    found |= {"weights_of_step": outcome.weights_of, "validation": outcome.scores}
    plain = f"{asked.out}: {closing(outcome)}"
    scores = []
    if asked.data.test and outcome.finished:
        with progress(None, "scoring") as advance:
            scores = score_test(asked, device=device, progress=advance)
        plain += f"\n{table(scores)}"
    if outcome.finished and os.path.isfile(page := os.path.join(asked.out, PAGE)):
        found["report"] = page
        print_note(f"report: {page}")
    facts = found | {"energy": outcome.energy} | ({"test": report(scores)} if scores else {})
    print_line(json_line(facts) if as_json else plain)
    if not outcome.finished:
        raise typer.Exit(1)


@app.command(
    epilog="Examples:  qkv evaluate FOLDER test.en test.de   |   qkv evaluate FOLDER test.tsv --report report.html"
)
def evaluate(
    model: Annotated[str, MODEL],
    data: Annotated[
        list[str],
        typer.Argument(metavar="FILE…", help="Files with the answers; for images, a folder.", show_default=False),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="How to read files: data.text, data.label, data.separator, data.encoding, data.unit.",
        ),
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count rows that cannot be used.")] = False,
    beam: Annotated[int | None, typer.Option(help="Beam size for translators. Default: 4.")] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a text-to-text model, the task that the files are for; `qkv info` lists them.",
        ),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="For language models, slide the window by N tokens, so that each token is predicted with more of the "
            "text before it. Default: windows that do not overlap, as in validation.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE.html", help="Write a report: scores, classes, calibration, mistakes.")
    ] = None,
    confusion: Annotated[bool, typer.Option("--confusion", help="Print the confusion matrix and each class.")] = False,
    errors: Annotated[int, typer.Option(metavar="N", help="Print the N worst mistakes.")] = 0,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Score a model on files: each metric with its 95 % confidence interval and its signature."""
    from qkv import predict
    from qkv.cli.evaluation import Wanted, evaluated
    from qkv.cli.lines import json_line
    from qkv.recipes.schema import parse_change
    from qkv.runs.trained_on import reading_for

    changed = dict(map(parse_change, changes or [])) | ({"data.skip_bad": True} if skip_bad else {})
    loaded = predict.load(model, device=device)

    def say(line: str) -> None:
        print_note(f"qkv: {line}")

    read = reading_for(loaded, model, changed, say, data, part=task, whole=stride is not None)
    wanted = Wanted(model, report, confusion, errors)
    with progress(None, "evaluating") as advance:
        found = evaluated(loaded, data, read, wanted, beam=beam, task=task, stride=stride, progress=advance)
    print_line(json_line(found.to_dict()) if as_json else str(found))


PARTS = (
    *(reading, vectors, generating, look, glue, runs, shrink, shrinking, latency),
    *(distill, explain, measures, compare, energy, serve),
)
panels.arrange(app, [part.app for part in PARTS])


def run() -> None:
    """Run the command line. Errors are one sentence, never a traceback."""
    threads.choose_waiting()
    shortened = Counter[str]()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if isinstance(message, Shortened):  # one line at the end instead of one per batch
            shortened[message.what] += message.cut
        else:
            print_message(message)

    warnings.showwarning = show
    warnings.simplefilter("always", Shortened)  # two batches may shorten the same number of texts
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        with system_errors():
            code = _call()
    except QkvError as error:
        _say(str(error))
        code = error.exit_code
    except Terminated:
        _say("stopped by SIGTERM")
        code = 143
    finally:
        signal.signal(signal.SIGTERM, before)
        for what, cut in shortened.items():
            _say(f"{cut:,} of the {what}")
    _drop_unwritten()
    if code:
        raise SystemExit(code)


class Terminated(BaseException):
    """The command was stopped; unfinished files are removed on exit."""


def _terminated(*_: object) -> None:
    raise Terminated


def _call() -> int:
    """Run the command and return its exit code."""
    try:
        app()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except KeyboardInterrupt:
        code = 130
    except OSError as error:
        if error.filename is None and not isinstance(error, BrokenPipeError):  # not about a named file
            raise QkvError(f"standard input or output failed: {reason_of(error)}") from None
        raise
    if code == 130:
        _say("stopped")
    return code


def _say(message: str) -> None:
    with suppress(OSError):
        print_message(message)


def _drop_unwritten() -> None:
    """Discard output that could not be written, so that Python does not try again on exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
