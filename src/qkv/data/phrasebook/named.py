"""The phrasebook by name, wherever a recipe takes a file.

    phrasebook:train:20000      20,000 pairs for training
    phrasebook:train:20000:2    the same number of examples, each of one to two pairs joined, in turn
    phrasebook:valid, phrasebook:test[:COUNT]

A language model reads the same pairs as text in both languages: one sentence a document or, with data.unit blank or
file, paragraphs of `PARAGRAPH` sentences, each in English and then in French.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from qkv.common.errors import UsageError
from qkv.data.examples import Document, Parallel
from qkv.data.phrasebook import Pair, split

BUILT_IN = "phrasebook:"
PARTS = ("train", "valid", "test")
HELD_OUT = 1000  # sentences of each of valid and test
SEED = 1
PARAGRAPH = 48  # sentences: about 500 tokens, several times as long as the windows of a small language model


def is_phrasebook(path: str) -> bool:
    """Whether a path of a recipe names the built-in corpus."""
    return path.startswith(BUILT_IN)


def named_pairs(name: str) -> Iterator[Parallel]:
    """Yield the pairs of a part, joined if the name says so."""
    part, count, most = _parsed(name)
    pairs = _pairs(part, None if count is None else sum(1 + number % most for number in range(count)))
    number = 0
    while joined := list(islice(pairs, 1 + number % most)):
        number += 1
        english, french = (" ".join(side) for side in zip(*joined, strict=True))
        yield Parallel(english, french, f"{name}:{number}")


def named_documents(name: str, unit: str) -> Iterator[Document]:
    """Yield the text of a part in both languages."""
    part, count, _ = _parsed(name)
    pairs, number = _pairs(part, count), 0
    while some := list(islice(pairs, 1 if unit == "line" else PARAGRAPH)):
        for side in zip(*some, strict=True):
            number += 1
            yield Document(" ".join(side), f"{name}:{number}")


def _pairs(part: str, count: int | None) -> Iterator[Pair]:
    found = _split(count or 1 if part == "train" else 1)[PARTS.index(part)]
    return islice(iter(found), count)


@lru_cache(maxsize=4)  # a run reads its examples several times, and drawing those of valid and test takes a second
def _split(count: int) -> tuple[list[Pair], list[Pair], list[Pair]]:
    return split(count, SEED, HELD_OUT)


def _parsed(name: str) -> tuple[str, int | None, int]:
    """Return the part, how many examples, and how many pairs an example has at most."""
    part, *numbers = name.removeprefix(BUILT_IN).split(":")
    sound = part in PARTS and len(numbers) <= 2 and all(one.isdigit() for one in numbers if one)
    most = int(numbers[1]) if sound and len(numbers) == 2 and numbers[1] else 1
    if not sound or most < 1:
        parts = "phrasebook:train:COUNT, phrasebook:valid[:COUNT] or phrasebook:test[:COUNT]"
        raise UsageError(f"{name!r} is not a part of the phrasebook (allowed: {parts}, and :SENTENCES after COUNT)")
    given = int(numbers[0]) if numbers and numbers[0] else None
    return part, 1 if given is None and part == "train" else given, most
