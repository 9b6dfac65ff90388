"""`qkv heads` and `qkv layers`: what attention heads and layers do while a model reads some texts."""

from __future__ import annotations

from typing import Annotated

import typer

from qkv.cli import completion
from qkv.cli.options import DEVICE, FILE, JSON, MODEL, SET, progress
from qkv.cli.texts import find_texts, print_line, print_note

app = typer.Typer(rich_markup_mode="rich")
TEXTS = typer.Argument(metavar="TEXT…|-", help="Texts, or - to read lines from standard input.", show_default=False)
LIMIT = typer.Option(help="Read at most this many texts.")


@app.command(
    epilog="Examples:  qkv heads FOLDER 'Two dogs play.'   |   qkv heads FOLDER --file reviews.csv --importance "
    "reviews.csv"
)
def heads(
    model: Annotated[str, MODEL],
    texts: Annotated[list[str] | None, TEXTS] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    importance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA",
            help="Also measure how much each head matters to the loss on a file with correct answers; repeat the "
            "option for a translator's two files.",
            show_default=False,
        ),
    ] = None,
    ablation: Annotated[
        bool, typer.Option(help="With --importance: also remove one head after the other. This takes most of the time.")
    ] = True,
    examples: Annotated[int, typer.Option(help="With --importance: read at most this many examples.")] = 256,
    limit: Annotated[int, LIMIT] = 1000,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Measure each attention head: a line with its entropy, distance, what it looks at, and how much it matters.

    Entropy is in bits, distance in tokens. The shares are of attention to the previous, the same and the next token, to
    the first token and to separators. A head that gives more than half of its attention to one of these is named after
    it. A translator reads its own translations of the texts.
    """
    from qkv import predict
    from qkv.cli.lines import json_line
    from qkv.cli.measured import head_lines, importance_of

    given = _given(texts, file, model, changes, limit)
    loaded = predict.load(model, device=device)
    with progress(None, "measuring heads"):
        found = loaded.heads(given)
    matters = None
    if importance:
        with progress(None, "measuring importance") as advance:
            matters = importance_of(loaded, model, importance, ablation, examples, print_note, advance)
    if as_json:
        told = {"heads": [head.to_dict() for head in found]}
        print_line(json_line(told | ({"importance": matters.to_dict()} if matters else {})))
    else:
        print_line("\n".join(head_lines(found, matters)))


@app.command(
    epilog="Examples:  qkv layers FOLDER --file lines.txt   |   qkv layers runs/x --file lines.txt --compare BERT"
)
def layers(
    model: Annotated[str, MODEL],
    texts: Annotated[list[str] | None, TEXTS] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Compare the layers with those of another model, such as this one before fine-tuning.",
            show_default=False,
            autocompletion=completion.models,
        ),
    ] = None,
    limit: Annotated[int, LIMIT] = 1000,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Measure the layers: how similar they are, how alike tokens become, and attention scores by distance.

    Similarity is linear CKA, of each layer with each layer or with those of another model. Tokens become alike where
    attention is not held back: the columns show the model as it is, and without its skip connections or feed-forward
    layers. Of an encoder-decoder, the encoder is measured.
    """
    from qkv import predict
    from qkv.cli.lines import json_line
    from qkv.cli.measured import layer_lines

    given = _given(texts, file, model, changes, limit)
    loaded = predict.load(model, device=device)
    other = None if compare is None else predict.load(compare, device=device)
    with progress(None, "measuring layers"):
        found = loaded.layers(given, other)
    print_line(json_line(found.to_dict()) if as_json else "\n".join(layer_lines(found, compare)))


def _given(texts: list[str] | None, file: str | None, model: str, changes: list[str] | None, limit: int) -> list[str]:
    from itertools import islice

    from qkv.common.errors import UsageError

    if limit < 1:
        raise UsageError(f"--limit must be at least 1, got {limit}")
    return list(islice(find_texts(texts or [], file, model, changes), limit))
