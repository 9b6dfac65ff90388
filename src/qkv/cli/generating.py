"""The commands of language models: generate, score."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qkv.cli.options import DEVICE, DTYPE, FILE, JSON, MODEL, SET
from qkv.cli.reading import OUT, answered, columns_of, formatted, write
from qkv.cli.texts import STANDARD_INPUT, count_texts, print_piece

if TYPE_CHECKING:
    from qkv.cli.items import Item

app = typer.Typer(rich_markup_mode="rich")
PROMPTS = typer.Argument(
    metavar="PROMPT…|-", help="Prompts, or - to read lines from standard input.", show_default=False
)
SAMPLING, LIMITS = "Sampling and search", "Length"
PREFIX = typer.Option(help="Put this text before each prompt. Default: the folder's own prefix, if it has one.")


def _setting(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, show_default=False, rich_help_panel=SAMPLING)


@app.command(
    epilog="Examples:  qkv generate FOLDER 'Once upon a time' --temperature 0.8 --seed 3   |   "
    "qkv generate FOLDER 'ROMEO:' --stop 'JULIET:' --max-length 500 --window   |   "
    "qkv generate T5 'a long text' --prefix 'summarize: ' --beam 4"
)
def generate(
    model: Annotated[str, MODEL],
    prompts: Annotated[list[str] | None, PROMPTS] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    out: Annotated[str | None, OUT] = None,
    samples: Annotated[int, typer.Option(help="Texts per prompt. With --beam, the N best.")] = 1,
    stop: Annotated[
        list[str] | None,
        typer.Option(
            help="End a text where this string begins; repeat the option for more. \\n is a line end.",
            show_default=False,
            rich_help_panel=LIMITS,
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            help="The most new tokens. Default: what the folder says, or 200.",
            show_default=False,
            rich_help_panel=LIMITS,
        ),
    ] = None,
    window: Annotated[
        bool,
        typer.Option(
            "--window",
            help="Read only the end of a prompt that is longer than the model's context, and go on when the context "
            "is full.",
            rich_help_panel=LIMITS,
        ),
    ] = False,
    prefix: Annotated[str | None, PREFIX] = None,
    greedy: Annotated[bool, _setting("Always take the most likely token.", "--greedy")] = False,
    temperature: Annotated[
        float | None, _setting("Below 1 likely tokens gain, above 1 the others; 0 is greedy.")
    ] = None,
    top_k: Annotated[int | None, _setting("Sample from the k most likely tokens; 0 for all.")] = None,
    top_p: Annotated[
        float | None, _setting("Sample from the likely tokens that hold this share of all chances.")
    ] = None,
    min_p: Annotated[float | None, _setting("Sample from tokens at least this share as likely as the best.")] = None,
    seed: Annotated[int | None, _setting("Another seed gives another sample. Default: 0.")] = None,
    repetition_penalty: Annotated[float | None, _setting("Above 1, tokens that occurred lose.")] = None,
    no_repeat_ngram: Annotated[int | None, _setting("No n-gram of this size occurs twice.")] = None,
    beam: Annotated[int | None, _setting("Beam size; a beam does not sample.")] = None,
    length_penalty: Annotated[float | None, _setting("With --beam, higher values favour longer texts.")] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Show the most likely tokens of each step, as bars.")
    ] = False,
    echo: Annotated[bool, typer.Option("--echo", help="Print the prompt before its text.")] = False,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
    dtype: Annotated[str, DTYPE] = "float32",
) -> None:
    """Continue each prompt with a language model, or answer it with a T5.

    One text of one prompt appears as it is generated. Several texts for prompts on the command line are separated by a
    line of dashes; prompts from a file or standard input give one line each.
    """
    from qkv import predict
    from qkv.cli.generated import TOP, Shown
    from qkv.cli.items import Source
    from qkv.predict.generate import search_config

    given = Source(prompts or [], file, model, changes or []).items()
    loaded = predict.load(model, device=device, dtype=dtype)
    search: dict[str, Any] = {
        "sample": False if greedy else None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
        "repetition_penalty": repetition_penalty,
        "no_repeat_ngram": no_repeat_ngram,
        "beam": beam,
        "length_penalty": length_penalty,
    }
    options = search | {
        "samples": samples,
        "stop": [one.replace("\\n", "\n") for one in stop or ()],
        "max_length": max_length,
        "window": window,
        "prefix": prefix,
        "probabilities": TOP if probabilities else 0,
    }
    blocks = file is None and prompts != STANDARD_INPUT
    single = blocks and len(prompts or ()) == 1 and samples == 1 and not (as_json or out or probabilities or echo)
    if single and search_config(loaded, samples, search).beam == 1:
        stream(lambda put: loaded.generate([next(iter(given)).texts[0]], on_text=put, **options))
        return
    show = Shown(blocks=blocks, echo=echo, several=samples > 1)
    found = answered(lambda part: loaded.generate([item.texts[0] for item in part], **options), given, prompts)
    answers = (
        (columns_of(asked, "prompt"), one.to_dict(tokens=probabilities), show(asked.texts[0], one))
        for asked, one in found
    )
    write(formatted(answers, out, as_json), out, count_texts(prompts or [], file), "generating")


def stream(write_to: Callable[[Callable[[str], None]], Any]) -> None:
    """Print a text as it comes, and end its line, also if it is interrupted."""
    begun = False

    def put(piece: str) -> None:
        nonlocal begun
        begun = True
        print_piece(piece)

    try:
        write_to(put)
    finally:
        if begun:
            print_piece("\n")


@app.command(
    epilog="Examples:  qkv score FOLDER 'The capital of France is' ' Paris'   |   qkv score FOLDER --file pairs.tsv"
)
def score(
    model: Annotated[str, MODEL],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROMPT CONTINUATION…|-",
            help="Prompts with their continuations, or - for lines with a tab between the two.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    out: Annotated[str | None, OUT] = None,
    prefix: Annotated[str | None, PREFIX] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Print how likely each continuation is after its prompt: the log-probability, per token, and the tokens."""
    from qkv import predict
    from qkv.cli.inputs import continuations
    from qkv.cli.items import Source

    given = continuations(Source(texts or [], file, model, changes or []))
    loaded = predict.load(model, device=device)

    def ask(part: list[Item]) -> list[Any]:
        return loaded.score(*(list(side) for side in zip(*part, strict=True)), prefix=prefix)

    answers = (
        (
            columns_of(asked, "prompt", "continuation"),
            found.to_dict(),
            f"{found.log_prob:.4f}\t{found.per_token:.4f}\t{len(found.tokens)}",
        )
        for asked, found in answered(ask, given, texts)
    )
    total = count_texts(texts or [], file)
    write(formatted(answers, out, as_json), out, total // 2 if total and not file else total, "scoring")
