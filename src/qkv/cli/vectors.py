"""The commands about vectors: embed, similar, cluster, search, vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from qkv.cli.options import DEVICE, FILE, JSON, POOLING, SET, VECTORS, progress
from qkv.cli.texts import CHUNK, STANDARD_INPUT, chunk_of, count_texts, find_texts, print_line, print_message

app = typer.Typer(rich_markup_mode="rich")


@app.command(epilog="Examples:  qkv embed FOLDER 'a sentence' 'another'   |   qkv embed FOLDER - < lines.txt")
def embed(
    model: Annotated[str, VECTORS],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT…|-", help="Texts, or - to read lines from standard input.", show_default=False),
    ] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    normalize: Annotated[bool, typer.Option(help="Scale each vector to length 1.")] = False,
    pooling: Annotated[str | None, POOLING] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Turn each text into a vector: print one line of numbers per text."""
    from qkv import predict
    from qkv.cli.lines import json_line
    from qkv.predict.texts import chunked

    lines = find_texts(texts or [], file, model, changes)
    loaded = predict.load(model, device=device)
    with progress(count_texts(texts or [], file), "embedding") as advance:
        for chunk in chunked(lines, chunk_of(texts or [])):
            vectors = loaded.embed(chunk, normalize=normalize, pooling=pooling, progress=advance)
            for text, vector in zip(chunk, vectors.tolist(), strict=True):
                plain = " ".join(f"{x:.6f}" for x in vector)
                print_line(json_line({"text": text, "embedding": vector}) if as_json else plain)


@app.command(
    epilog="Examples:  qkv similar FOLDER 'A dog runs.' 'An animal is running.'   |   "
    "qkv similar VECTORS king - man + woman"
)
def similar(
    model: Annotated[str, VECTORS],
    asked: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="A B|WORD|SUM|-",
            help="Two texts, or with word vectors a word or a sum of words; - reads lines, A and B with a tab between.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[str | None, FILE] = None,
    changes: Annotated[list[str] | None, SET] = None,
    top: Annotated[int, typer.Option(help="How many words to list for a word or a sum.")] = 10,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Print the similarity of two texts, the cosine of their vectors; or the words nearest to a word or a sum."""
    from qkv import predict
    from qkv.cli.inputs import pairs
    from qkv.cli.items import Source
    from qkv.cli.likeness import pair_lines, read_pairs, word_lines
    from qkv.predict.words import WordVectors, has_words

    given = asked or []
    source = Source(given, file, model, changes or ())
    several = file is not None or given == STANDARD_INPUT or not given
    lines = (_tabbed(item) for item in pairs(source)) if source.has_rows else source.lines() if several else None
    loaded = predict.load(model, device=device)
    with progress(count_texts(given, file) if lines is not None else 1, "comparing") as advance:
        if has_words(loaded):
            questions = [" ".join(given)] if lines is None else lines
            found = word_lines(WordVectors(loaded), questions, top=top, several=lines is not None, as_json=as_json)
        else:
            found = pair_lines(loaded, read_pairs(given, lines, file), chunk_of(given), as_json=as_json)
        for line in found:
            print_line(line)
            advance(1)


@app.command(epilog="Examples:  qkv cluster FOLDER lines.txt --groups 8   |   qkv cluster FOLDER - --distance 0.4")
def cluster(
    model: Annotated[str, VECTORS],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="A table, a file with one text per line, or - for standard input.",
            show_default=False,
        ),
    ],
    changes: Annotated[list[str] | None, SET] = None,
    groups: Annotated[int | None, typer.Option(help="The number of groups, for k-means.", show_default=False)] = None,
    distance: Annotated[
        float | None,
        typer.Option(
            help="Instead: merge groups while the mean cosine distance between them is at most this, from 0 to 2.",
            show_default=False,
        ),
    ] = None,
    members: Annotated[bool, typer.Option("--members", help="List the texts of each group.")] = False,
    seed: Annotated[int, typer.Option(help="Seed for the random start of k-means.")] = 0,
    pooling: Annotated[str | None, POOLING] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Group texts: print number, size and most central text of each group, largest first."""
    import numpy as np

    from qkv import predict
    from qkv.cli.likeness import group_lines
    from qkv.common.errors import UsageError
    from qkv.predict.cluster import cluster as group
    from qkv.predict.texts import chunked

    if (groups is None) == (distance is None):
        raise UsageError("give either --groups K or --distance D, not both")
    source = find_texts(STANDARD_INPUT, None) if file == "-" else find_texts([], file, model, changes)
    numbered = [(number, text) for number, text in enumerate(source, 1) if text.strip()]
    if not numbered:
        raise UsageError(f"{file} holds no text: there is nothing to cluster")
    loaded = predict.load(model, device=device)
    with progress(len(numbered), "embedding") as advance:
        parts = chunked((text for _, text in numbered), CHUNK)
        vectors = np.concatenate([loaded.embed(part, pooling=pooling, progress=advance) for part in parts])
    for line in group_lines(
        group(vectors, groups=groups, distance=distance, seed=seed), numbered, members=members, as_json=as_json
    ):
        print_line(line)


@app.command(epilog="Examples:  qkv search FOLDER notes.txt 'a question'   |   qkv search FOLDER notes.txt - --json")
def search(
    model: Annotated[str, VECTORS],
    corpus: Annotated[
        str,
        typer.Argument(metavar="CORPUS", help="A file with one text per line; may be compressed.", show_default=False),
    ],
    queries: Annotated[
        list[str],
        typer.Argument(metavar="QUERY…|-", help="Queries, or - to read lines from standard input.", show_default=False),
    ],
    top: Annotated[int, typer.Option(help="How many lines to list.")] = 5,
    index: Annotated[
        str | None, typer.Option(help="Where to keep the vectors. Default: beside the corpus.", show_default=False)
    ] = None,
    pooling: Annotated[str | None, POOLING] = None,
    as_json: Annotated[bool, JSON] = False,
    device: Annotated[str | None, DEVICE] = None,
) -> None:
    """Find the lines of a file nearest to each query. The vectors are kept until the file or the model changes."""
    from qkv import predict
    from qkv.cli.likeness import hit_lines
    from qkv.predict.search import Index
    from qkv.predict.texts import chunked

    lines = find_texts(queries, None)
    loaded = predict.load(model, device=device)
    with progress(None, "reading lines") as advance:
        made = Index(loaded, corpus, folder=index, pooling=pooling, say=print_message, progress=advance)
    several = queries == STANDARD_INPUT or len(queries) > 1
    for chunk in chunked(lines, chunk_of(queries)):
        for query, hits in zip(chunk, made.search(chunk, top=top), strict=True):
            print_line(hit_lines(query, hits, several=several, as_json=as_json))


@app.command(epilog="Examples:  qkv vectors FOLDER --out vectors.txt   |   qkv vectors vectors.txt --out vectors.bin")
def vectors(
    model: Annotated[str, VECTORS],
    out: Annotated[
        str,
        typer.Option(
            help="The file to write: binary if it ends in .bin, else text; add .gz to compress it.", show_default=False
        ),
    ],
    header: Annotated[
        bool, typer.Option(help="Start with a line `N D` as word2vec does; GloVe files have none.")
    ] = True,
) -> None:
    """Write word vectors to a file that other tools can read."""
    from qkv import predict
    from qkv.checkpoints.word_vectors import write_vectors
    from qkv.predict.words import named_vectors

    words, table = named_vectors(predict.load(model, device="cpu"))
    write_vectors(out, words, table, header=header)
    print_line(f"{out}: {len(words):,} words, {table.shape[1]} numbers each")


def _tabbed(texts: Iterable[str]) -> str:
    return "\t".join(text.replace("\t", " ") for text in texts)
