"""`qkv explain`: the words behind an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from qkv.cli.drawing import show
from qkv.cli.options import DEVICE, FILE, JSON, MODEL, SET, progress
from qkv.cli.texts import chunk_of, count_texts, print_line, print_message, print_note

if TYPE_CHECKING:
    from qkv.cli.items import Source
    from qkv.insight.explanation import Explanation, Explanations

app = typer.Typer(rich_markup_mode="rich")
CHUNK = 16  # texts explained at a time: each is run some hundred times


@app.command(
    epilog="Examples:  qkv explain FOLDER 'A film to remember.'   |   qkv explain FOLDER --file reviews.csv --html "
    "words.html   |   qkv explain en-de 'Two dogs play.'"
)
def explain(
    model: Annotated[str, MODEL],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT…|-", help="Texts, or - to read lines from standard input.", show_default=False),
    ] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    pair: Annotated[
        bool, typer.Option("--pair", help="Read pairs of texts: two arguments each, or lines with a tab between.")
    ] = False,
    context: Annotated[
        str | None, typer.Option(help="For questions, the file to find answers in.", show_default=False)
    ] = None,
    context_text: Annotated[
        str | None, typer.Option(help="For questions, the text to find answers in.", show_default=False)
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            help="Explain this label, word, translation or piece of the context. Default: what the model says.",
            show_default=False,
        ),
    ] = None,
    verb: Annotated[
        str | None,
        typer.Option(
            help="classify, tag, answer, fill, translate or next, for a model that can do several.", show_default=False
        ),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Explain each word of a translation by itself.")] = False,
    top: Annotated[int, typer.Option(help="Words to list, the most important ones first.")] = 10,
    steps: Annotated[
        int | None,
        typer.Option(help="Points of the integral. Default: as many as it needs, at most 384.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(help="Read at most this many texts.")] = 1000,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE.html", help="Write a page that needs no network.", show_default=False),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Show the words behind a label, a tag, an answer, a fill-in, a translation or the next word.

    Each word's effect is measured twice: by integrated gradients, whose effects add up to the score, and by how much
    the score falls without the word. For a file of texts to classify, the words that matter most for each class are
    printed; --html and --json have every text.
    """
    from qkv import predict
    from qkv.cli.items import Source
    from qkv.common.errors import UsageError
    from qkv.insight.explanation import Explanations
    from qkv.predict.texts import chunked

    for name, value in (("--top", top), ("--limit", limit)):
        if value < 1:
            raise UsageError(f"{name} must be at least 1, got {value}")
    _check_page(html)
    source = Source(texts or [], file, model, changes or [])
    loaded = predict.load(model, device=device)
    given = islice(_sides(source, pair, context, context_text), limit)
    parts = chunked(given, min(CHUNK, chunk_of(texts or [])))
    found = Explanations((), 0)
    with progress(count_texts(texts or [], file), "explaining", long=8) as advance:
        for part in parts:
            first, *second = (list(side) for side in zip(*part, strict=True))
            done = len(found)
            found += loaded.explain(first, second[0] if second else None, of=of, verb=verb, steps=steps, each=each)
            advance(len(first))
            if as_json or not (file and found.has_classes):
                _print(found.found[done:], top, as_json=as_json, first=not done)
    if not len(found):
        print_message("the model found nothing in these texts, so there is nothing to explain")
    if file and found.has_classes:
        _print_classes(found, top, as_json)
    if html is not None:
        print_note(f"page: {found.save(html)}")


def _check_page(html: str | None) -> None:
    """Refuse a page that cannot be written before any work."""
    if html is not None:
        from pathlib import Path

        from qkv.common import disk

        disk.plain_file(Path(html))


def _sides(source: Source, pair: bool, context: str | None, context_text: str | None) -> Iterator[tuple[str, ...]]:
    """Yield each text, with its second text or its context if there is one."""
    from qkv.cli.inputs import pairs, questions

    if context is not None or context_text is not None:
        return ((row["question"], row["context"]) for row in questions(source, context, context_text))
    return (item.texts for item in (pairs(source) if pair else source.items(pair=None)))


def _print(some: Iterable[Explanation], top: int, *, as_json: bool, first: bool) -> None:
    from qkv.cli.lines import json_line
    from qkv.insight.explanation_text import explanation_text

    for number, one in enumerate(some):
        if as_json:
            print_line(json_line(one.to_dict()))
            continue
        if number or not first:
            print_line("")
        show(partial(explanation_text, one, top))


def _print_classes(found: Explanations, top: int, as_json: bool) -> None:
    from qkv.cli.lines import json_line
    from qkv.insight.explanation_text import class_text

    if not as_json:
        show(partial(class_text, found.by_answer, top))
        return
    words = {answer: [word.to_dict() for word in some[:top]] for answer, some in found.by_answer.items()}
    print_line(json_line({"words_by_answer": words}))
