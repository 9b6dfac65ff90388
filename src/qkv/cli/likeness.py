"""Similarities, search hits and clusters as lines of text or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from qkv.cli.lines import json_line
from qkv.common.errors import UsageError
from qkv.predict import Model
from qkv.predict.cluster import Group
from qkv.predict.search import Hit
from qkv.predict.texts import chunked
from qkv.predict.words import OPERATORS, WordVectors

Pair = tuple[str, str]


def read_pairs(given: list[str], lines: Iterable[str] | None, file: str | None) -> Iterator[Pair]:
    """Take two texts from the command line, or two per line with a tab between them."""
    if lines is None:
        if len(given) != 2:
            raise UsageError(f"give two texts to compare, got {len(given)}: quote each of them, or use - or --file")
        return iter([(given[0], given[1])])
    return (_cut(line, number, file or "standard input") for number, line in enumerate(lines, 1))


def _cut(line: str, number: int, name: str) -> Pair:
    cells = line.split("\t")
    if len(cells) != 2:
        raise UsageError(f"{name}:{number} holds {len(cells)} texts; a pair is two with a tab between: {line[:40]!r}")
    return cells[0], cells[1]


def pair_lines(model: Model, pairs: Iterator[Pair], chunk: int, *, as_json: bool) -> Iterator[str]:
    """Compare pairs as they arrive."""
    for some in chunked(pairs, chunk):
        vectors = model.embed([text for pair in some for text in pair], normalize=True)
        cosines = (vectors[0::2] * vectors[1::2]).sum(1).tolist()
        yield from (_pair(a, b, cosine, as_json) for (a, b), cosine in zip(some, cosines, strict=True))


def word_lines(
    words: WordVectors, questions: Iterable[str], *, top: int, several: bool, as_json: bool
) -> Iterator[str]:
    """Answer queries as they arrive: two words (their cosine), or one word or a sum (the nearest words)."""
    for question in questions:
        parts = question.split()
        if len(parts) == 2 and not set(parts) & set(OPERATORS):
            yield _pair(parts[0], parts[1], words.cosine(*parts), as_json)
            continue
        found = words.nearest(question, top=top)
        if as_json:
            yield json_line({"words": " ".join(parts), "nearest": [near.to_dict() for near in found]})
        else:
            yield _block(question, [f"{near.cosine:.4f}\t{near.word}" for near in found], several)


def hit_lines(query: str, hits: Sequence[Hit], *, several: bool, as_json: bool) -> str:
    """Format the hits of a query: cosine, line number, text."""
    if as_json:
        return json_line({"query": query, "hits": [hit.to_dict() for hit in hits]})
    return _block(query, [f"{hit.cosine:.4f}\t{hit.line}\t{hit.text}" for hit in hits], several)


def group_lines(
    groups: Sequence[Group], texts: Sequence[tuple[int, str]], *, members: bool, as_json: bool
) -> Iterator[str]:
    """Format groups: number, size, central text; then each member with its cosine to the mean of the group."""
    for number, group in enumerate(groups, 1):
        found = group.to_dict(number, texts)
        if as_json:
            yield json_line(found)
            continue
        yield f"{number}\t{found['size']}\t{found['central']}"
        if members:
            yield from (f"\t{member['cosine']:.4f}\t{member['text']}" for member in found["members"])


def _pair(a: str, b: str, cosine: float, as_json: bool) -> str:
    return json_line({"a": a, "b": b, "cosine": cosine}) if as_json else f"{cosine:.4f}"


def _block(title: str, lines: list[str], several: bool) -> str:
    """Join lines; with several blocks, each has a title and an empty line after it."""
    return "\n".join([title, *lines, ""] if several else lines)
