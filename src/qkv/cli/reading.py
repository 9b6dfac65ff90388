"""The commands that read texts: classify, tag, answer, fill. Answers come in the order of the texts, as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from qkv.cli.options import DEVICE, FILE, JSON, MODEL, SET, progress
from qkv.cli.texts import chunk_of, count_texts, opened
from qkv.common.errors import UsageError

if TYPE_CHECKING:
    from qkv.cli.items import Item

app = typer.Typer(rich_markup_mode="rich")
T = TypeVar("T")
TEXTS = typer.Argument(metavar="TEXT…|-", help="Texts, or - to read lines from standard input.", show_default=False)
INPUTS = typer.Argument(
    metavar="TEXT…|IMAGE…|-",
    help="Texts, or - to read lines from standard input. For a model of images: files, folders and patterns.",
    show_default=False,
)
OUT = typer.Option(
    help="Write to a file, which appears only when it is complete: a table with the input columns and the answers if "
    "it ends in .csv, .tsv or .jsonl, else lines. Default: standard output.",
    show_default=False,
)


def _likely(help: str, *names: str) -> Any:
    """Return an option for classifying with a language model."""
    return typer.Option(*names, help=help, show_default=False, rich_help_panel="With a language model")


Answered = tuple[Mapping[str, Any], dict[str, Any], str]  # the input, its answer, and the answer as a plain line
DELIMITERS = {".csv": ",", ".tsv": "\t"}


@app.command(
    epilog="Examples:  qkv classify FOLDER 'A film to remember.' --all   |   qkv classify FOLDER - < lines.txt   "
    "|   qkv classify GPT 'Great.' --labels positive,negative --prompt '{text} It was'"
    "   |   qkv classify FOLDER cat.png photos/ 'more/*.jpg' --top 3"
)
def classify(
    model: Annotated[str, MODEL],
    texts: Annotated[list[str] | None, INPUTS] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    out: Annotated[str | None, OUT] = None,
    pair: Annotated[
        bool, typer.Option("--pair", help="Classify pairs of texts: two arguments each, or lines with a tab between.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Print all labels, most likely first.")] = False,
    top: Annotated[
        int | None, typer.Option(help="Print so many labels, most likely first.", show_default=False)
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="For models that give several labels, the lowest probability. Default: the folder's own."),
    ] = None,
    labels: Annotated[
        str | None, _likely("Choose the likeliest of these labels, separated by commas, after --prompt.", "--labels")
    ] = None,
    prompt: Annotated[
        str | None, _likely("The prompt, with {text} in it; the label follows at its end, or where it has {label}.")
    ] = None,
    examples: Annotated[
        str | None, _likely("A table of texts with labels to write before each text (few-shot).", "--examples")
    ] = None,
    normalize: Annotated[bool, _likely("Do not put long labels at a disadvantage.", "--normalize")] = False,
    calibrate: Annotated[bool, _likely("Compare with an empty text (Zhao et al. 2021).", "--calibrate")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Report and skip images that cannot be decoded.")
    ] = False,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Classify each text or image: print a label and its probability, several labels, or a number."""
    from qkv import predict
    from qkv.cli.inputs import pairs
    from qkv.cli.items import Source
    from qkv.cli.lines import label_line
    from qkv.cli.zero_shot import ByLikelihood
    from qkv.predict.classify import to_dict

    if predict.names_image_model(model):
        options: dict[str, Any] = {"every": every, "top": top, "threshold": threshold, "pairs": [] if pair else None}
        _images(model, texts, file, options, out, skip_bad, as_json, device)
        return
    if skip_bad:
        raise UsageError("--skip-bad is for images, and this model reads texts: leave it out")
    source = Source(texts or [], file, model, changes or [])
    given = pairs(source) if pair else source.items(pair=None)
    loaded = predict.load(model, device=device)
    likeliest = ByLikelihood(labels, prompt, examples, normalize, calibrate).asker(loaded, every=every)

    def ask(part: list[Item]) -> list[Any]:
        if likeliest is not None:
            return likeliest([item.texts[0] for item in part])
        sides = [list(side) for side in zip(*part, strict=True)]
        return loaded.classify(*sides, every=every, top=top, threshold=threshold)

    answers = ((columns_of(asked), to_dict(found), label_line(found)) for asked, found in answered(ask, given, texts))
    lines = formatted(answers, out, as_json)
    total = count_texts(texts or [], file)
    write(lines, out, total // 2 if total and pair and not file else total, "classifying")


@app.command(
    epilog="Examples:  qkv tag FOLDER 'Ada Lovelace lived in London.'   |   qkv tag FOLDER - --words < words.txt"
)
def tag(
    model: Annotated[str, MODEL],
    texts: Annotated[list[str] | None, TEXTS] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    out: Annotated[str | None, OUT] = None,
    words: Annotated[
        bool, typer.Option("--words", help="Texts are words separated by spaces; print each word with its tag.")
    ] = False,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Find the entities of each text: print label, start, end, score and text of each, or tag every word."""
    from qkv import predict
    from qkv.cli.inputs import in_line, words_of
    from qkv.cli.items import Source
    from qkv.cli.lines import entity_line, word_line
    from qkv.data.conll import is_conll

    given = Source(texts or [], file, model, changes or []).items()
    loaded = predict.load(model, device=device)
    words = words or (file is not None and is_conll(file))
    what = "words" if words or not loaded.tags_entities else "entities"

    def ask(part: list[Item]) -> list[Any]:
        asked = [item.texts[0] for item in part]
        if not words:
            return loaded.tag(asked)
        return list(map(in_line, asked, loaded.tag([words_of(line) for line in asked])))

    plain = word_line if what == "words" else entity_line
    answers = (
        (columns_of(asked), {what: [one.to_dict() for one in found]}, plain(found))
        for asked, found in answered(ask, given, texts)
    )
    lines = formatted(answers, out, as_json)
    write(lines, out, count_texts(texts or [], file), "tagging")


@app.command(
    epilog="Examples:  qkv answer FOLDER 'Who wrote it?' --context book.txt   |   qkv answer FOLDER - < questions.jsonl"
)
def answer(
    model: Annotated[str, MODEL],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUESTION…|-", help="Questions, or - to read lines from standard input.", show_default=False
        ),
    ] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    out: Annotated[str | None, OUT] = None,
    context: Annotated[
        str | None,
        typer.Option(
            help="The file to find answers in, or - for standard input. "
            'Without a context, lines are JSON: {"question": "…", "context": "…"}.',
            show_default=False,
        ),
    ] = None,
    context_text: Annotated[str | None, typer.Option(help="The text to find answers in.", show_default=False)] = None,
    nbest: Annotated[
        int, typer.Option(help="Answers per question; with more than one, each line starts with the question's number.")
    ] = 1,
    no_answer: Annotated[
        bool | None,
        typer.Option(
            "--no-answer/--always-answer",
            help="Allow an empty answer, or never give one. Default: what the folder says.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Answer each question from a text: print the answer, its score, start and end."""
    from qkv import predict
    from qkv.cli.inputs import questions
    from qkv.cli.items import Source
    from qkv.cli.lines import answer_line

    given = questions(Source(texts or [], file, model, changes or []), context, context_text)
    loaded = predict.load(model, device=device)

    def ask(part: list[dict[str, Any]]) -> list[Any]:
        asked, contexts = ([row[key] for row in part] for key in ("question", "context"))
        return loaded.answer(asked, contexts, nbest=nbest, no_answer=no_answer)

    several = nbest > 1
    answers = (
        (
            {key: value for key, value in asked.items() if key != "context"},
            found.to_dict(others=several),
            answer_line(number, found, several=several),
        )
        for number, (asked, found) in enumerate(answered(ask, given, texts))
    )
    lines = formatted(answers, out, as_json)
    write(lines, out, count_texts(texts or [], file), "answering")


@app.command(
    epilog="Examples:  qkv fill FOLDER 'Paris is the \\[MASK] of France.'   |   qkv fill FOLDER - --top 3 < lines.txt"
)
def fill(
    model: Annotated[str, MODEL],
    texts: Annotated[list[str] | None, TEXTS] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    out: Annotated[str | None, OUT] = None,
    top: Annotated[int, typer.Option(help="Words per mask.")] = 5,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    r"""Find words for each \[MASK] in each text: print the most likely words with probabilities, a line per mask."""
    from qkv import predict
    from qkv.cli.items import Source
    from qkv.cli.lines import choice_line

    given = Source(texts or [], file, model, changes or []).items()
    loaded = predict.load(model, device=device)
    found = answered(lambda part: loaded.fill([item.texts[0] for item in part], top=top), given, texts)
    answers = (
        (columns_of(asked), {"masks": [[one.to_dict() for one in mask] for mask in masks]}, choice_line(masks))
        for asked, masks in found
    )
    lines = formatted(answers, out, as_json)
    write(lines, out, count_texts(texts or [], file), "filling")


def _images(
    model: str,
    names: list[str] | None,
    file: str | None,
    options: Mapping[str, Any],
    out: str | None,
    skip_bad: bool,
    as_json: bool,
    device: str | None,
) -> None:
    """Classify images: each line begins with the path."""
    from qkv import predict
    from qkv.cli.images import answers, named_images
    from qkv.cli.lines import label_line, one_cell
    from qkv.predict.classify import to_dict

    paths = named_images(names or [], file)
    loaded = predict.load(model, device=device)
    found = (
        (asked, to_dict(one), f"{one_cell(asked['image'])}\t{label_line(one)}")
        for asked, one in answers(loaded, paths, options, skip_bad=skip_bad)
    )
    write(formatted(found, out, as_json), out, len(paths), "classifying")


def answered(
    ask: Callable[[list[T]], list[Any]], given: Iterable[T], texts: list[str] | None
) -> Iterator[tuple[T, Any]]:
    """Answer chunk by chunk; only one chunk is held at a time."""
    from qkv.predict.texts import chunked

    for part in chunked(given, chunk_of(texts or [])):
        yield from zip(part, ask(part), strict=True)


def columns_of(asked: Item, *names: str) -> dict[str, Any]:
    """Return the columns of an item, the texts among them under these names; by default text and pair."""
    texts = zip(names or ("text", "pair"), asked, strict=False)
    return {**asked.row, **{name: text for name, text in texts if name not in asked.row}}


def formatted(answers: Iterable[Answered], out: str | None, as_json: bool) -> Iterator[str]:
    """Write the input, the answer and the plain line of each item as --json or the ending of --out asks."""
    from qkv.cli.lines import flat, json_line, merged, table_lines

    ending = Path(out or "").suffix.lower()
    if not as_json and ending in DELIMITERS:
        return table_lines((merged(given, flat(answer)) for given, answer, _ in answers), DELIMITERS[ending])
    if as_json or ending == ".jsonl":
        return (json_line(merged(given, answer)) for given, answer, _ in answers)
    return (line for *_, line in answers)


def write(lines: Iterable[str], out: str | None, total: int | None, what: str) -> None:
    """Write lines as they arrive."""
    with opened(out) as put, progress(total, what) as advance:
        for line in lines:
            put(line)
            advance(1)
