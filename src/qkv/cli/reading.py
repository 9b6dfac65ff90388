"""The commands that read texts: classify, tag, answer, fill. Answers come in the order of the texts, as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar

import typer

from qkv.cli.options import DEVICE, FILE, JSON, MODEL, progress
from qkv.cli.texts import chunk_of, count_texts, find_texts, opened

app = typer.Typer(rich_markup_mode="rich")
T = TypeVar("T")
TEXTS = typer.Argument(metavar="TEXT…|-", help="Texts, or - to read lines from standard input.", show_default=False)
OUT = typer.Option(
    help="Write to a file, which appears only when it is complete. Default: standard output.", show_default=False
)


@app.command(
    epilog="Examples:  qkv classify FOLDER 'A film to remember.' --all   |   qkv classify FOLDER - --json < lines.txt"
)
def classify(
    model: Annotated[str, MODEL],
    texts: Annotated[list[str] | None, TEXTS] = None,
    file: Annotated[str | None, FILE] = None,
    out: Annotated[str | None, OUT] = None,
    pair: Annotated[
        bool, typer.Option("--pair", help="Classify pairs of texts: two arguments each, or lines with a tab between.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Print all labels, most likely first.")] = False,
    threshold: Annotated[
        float | None,
        typer.Option(help="For models that give several labels, the lowest probability. Default: the folder's own."),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Classify each text: print a label and its probability, several labels, or a number."""
    from qkv import predict
    from qkv.cli.inputs import pairs
    from qkv.cli.lines import json_line, label_line
    from qkv.predict.classify import to_dict

    given: Iterator[Any] = pairs(texts or [], file) if pair else ((text,) for text in find_texts(texts or [], file))
    loaded = predict.load(model, device=device)

    def ask(part: list[tuple[str, ...]]) -> list[Any]:
        sides = [list(side) for side in zip(*part, strict=True)]
        return loaded.classify(*sides, every=every, threshold=threshold)

    lines = (
        json_line(dict(zip(("text", "pair"), asked, strict=False)) | to_dict(found)) if as_json else label_line(found)
        for asked, found in _answered(ask, given, texts)
    )
    total = count_texts(texts or [], file)
    _write(lines, out, total // 2 if total and pair and not file else total, "classifying")


@app.command(
    epilog="Examples:  qkv tag FOLDER 'Ada Lovelace lived in London.'   |   qkv tag FOLDER - --words < words.txt"
)
def tag(
    model: Annotated[str, MODEL],
    texts: Annotated[list[str] | None, TEXTS] = None,
    file: Annotated[str | None, FILE] = None,
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
    from qkv.cli.lines import entity_line, json_line, word_line

    given = find_texts(texts or [], file)
    loaded = predict.load(model, device=device)
    what = "words" if words or not loaded.tags_entities else "entities"

    def ask(part: list[str]) -> list[Any]:
        if not words:
            return loaded.tag(part)
        return list(map(in_line, part, loaded.tag([words_of(line) for line in part])))

    plain = word_line if what == "words" else entity_line
    lines = (
        json_line({"text": text, what: [one.to_dict() for one in found]}) if as_json else plain(found)
        for text, found in _answered(ask, given, texts)
    )
    _write(lines, out, count_texts(texts or [], file), "tagging")


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
    from qkv.cli.lines import answer_line, json_line

    given = questions(texts or [], file, context, context_text)
    loaded = predict.load(model, device=device)

    def ask(part: list[dict[str, Any]]) -> list[Any]:
        asked, contexts = ([row[key] for row in part] for key in ("question", "context"))
        return loaded.answer(asked, contexts, nbest=nbest, no_answer=no_answer)

    several = nbest > 1
    lines = (
        json_line({k: v for k, v in asked.items() if k != "context"} | found.to_dict(others=several))
        if as_json
        else answer_line(number, found, several=several)
        for number, (asked, found) in enumerate(_answered(ask, given, texts))
    )
    _write(lines, out, count_texts(texts or [], file), "answering")


@app.command(
    epilog="Examples:  qkv fill FOLDER 'Paris is the \\[MASK] of France.'   |   qkv fill FOLDER - --top 3 < lines.txt"
)
def fill(
    model: Annotated[str, MODEL],
    texts: Annotated[list[str] | None, TEXTS] = None,
    file: Annotated[str | None, FILE] = None,
    out: Annotated[str | None, OUT] = None,
    top: Annotated[int, typer.Option(help="Words per mask.")] = 5,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    r"""Find words for each \[MASK] in each text: print the most likely words with probabilities, a line per mask."""
    from qkv import predict
    from qkv.cli.lines import choice_line, json_line

    given = find_texts(texts or [], file)
    loaded = predict.load(model, device=device)
    found = _answered(lambda part: loaded.fill(part, top=top), given, texts)
    lines = (
        json_line({"text": text, "masks": [[one.to_dict() for one in mask] for mask in masks]})
        if as_json
        else choice_line(masks)
        for text, masks in found
    )
    _write(lines, out, count_texts(texts or [], file), "filling")


def _answered(
    ask: Callable[[list[T]], list[Any]], given: Iterable[T], texts: list[str] | None
) -> Iterator[tuple[T, Any]]:
    """Answer chunk by chunk; only one chunk is held at a time."""
    from qkv.predict.texts import chunked

    for part in chunked(given, chunk_of(texts or [])):
        yield from zip(part, ask(part), strict=True)


def _write(lines: Iterable[str], out: str | None, total: int | None, what: str) -> None:
    """Write lines as they arrive."""
    with opened(out) as write, progress(total, what) as advance:
        for line in lines:
            write(line)
            advance(1)
